"""pgrelay relays committed row changes from a Postgres logical replication slot to Kafka."""

__version__: str


def __getattr__(name: str) -> str:
    """`__version__`, once it is needed: finding it takes a while, and signals are not handled yet."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("pgrelay")
