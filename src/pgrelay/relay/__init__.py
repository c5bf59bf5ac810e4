"""The relay itself: the only room that knows both ends."""

from pgrelay.relay.process import run

__all__ = ["run"]
