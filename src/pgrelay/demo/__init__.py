"""The demo: a shop on an embedded Postgres, relayed to a real Kafka broker, and the records as they arrive.

Theory of operation. Both servers start side by side. The relay runs as a process of its own, as any user
starts it; nothing of it is imported here. One thread commits the shop's transactions; the main thread reads
the topics as any consumer would, shows each record, and folds them into tables of its own. When the workload
has ended and Kafka has everything, Postgres compares these tables with the real ones: that is the proof.
"""

from pgrelay.demo.run import demo

__all__ = ["demo"]
