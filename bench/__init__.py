"""Benchmarks beside the peers, on real servers: `python -m bench --help`.

What is timed. The WAL is written first; then every contender drains it alone, from the same LSN, by a copy
of one slot. The clock starts when the server shows the contender's slot as active, so no process start is in
it, and stops when the slot is confirmed up to the end of the load: the contender has told the server that
nothing of it will be needed again, after the broker's acknowledgements. Kafka Connect confirms once a minute,
so the clock of Debezium stops earlier, when the broker holds all of its records. CPU is what /proc counts
between the two, and the walsender's, the contender's and the broker's stand apart. After the clock every
record is read back; a run whose records are not exactly those expected is void.

Linux only. The servers are those of `pgrelay.embedded`; everything else on the machine should rest.
"""
