"""Streaming queries that keep tables of the lake equal to those of Postgres, and tell how far they are."""
