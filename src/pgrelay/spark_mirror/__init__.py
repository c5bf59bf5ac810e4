"""`pgrelay spark-mirror`: a mirror of `pgrelay.spark` by a configuration file, with no code to write."""
