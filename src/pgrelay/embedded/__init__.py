"""Real servers from packages, for the demo, the tests and the benchmarks: no Docker, no Java, no root.

`Postgres` and `Kafka` are context managers. They need the extra `demo`, and Linux or macOS. Everything except
Postgres 18 and 16 without contrib also needs access to a Maven repository, once.
"""
