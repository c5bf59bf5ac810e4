"""The demo: a shop on an embedded Postgres, relayed to a real Kafka broker, and the records as they arrive.

Theory of operation. Both servers start in parallel. The relay runs as its own process, started as any user
would start it; the demo imports no relay code. One thread commits the shop's transactions; the main thread
reads the topics as any consumer would, shows each record, and folds the records into its own tables. When the
workload has ended and Kafka has everything, Postgres compares these tables with the real ones as a proof.
"""

from pgrelay.demo.run import demo

__all__ = ["demo"]
