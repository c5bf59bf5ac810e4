"""pgrelay relays committed row changes from a Postgres logical replication slot to Kafka."""

from importlib.metadata import version

__version__ = version("pgrelay")
