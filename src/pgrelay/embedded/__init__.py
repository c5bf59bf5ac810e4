"""Real servers from packages, for the demo, the tests and the benchmarks: no Docker, no Java, no root.

`Postgres` and `Kafka` are context managers. They need the extra `demo`, Linux or macOS, and for anything but
`Postgres("18")` and `Postgres("16")` a Maven repository within reach, once.
"""
