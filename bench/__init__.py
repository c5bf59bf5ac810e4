"""Benchmarks against the peers, on real servers: `python -m bench --help`.

What is timed. The WAL is written first; then every contender drains it alone, from the same LSN, through a
copy of one slot. The clock starts when the server shows the contender's slot as active, which excludes the
process start. It stops when the slot is confirmed up to the end of the load: after the broker's
acknowledgements, the contender has told the server that it no longer needs any of it. Kafka Connect confirms
once a minute, so Debezium's clock stops earlier, when the broker holds all of its records. CPU is what /proc
counts between the two, separately for the walsender, the contender and the broker. Afterwards every record is
read back; a run whose records are not exactly those expected is void.

Linux only. The servers are those of `pgrelay.embedded`; nothing else should run on the machine.
"""
