"""`pgrelay spark-mirror`: a mirror of `pgrelay.spark` from a configuration file, without code."""
