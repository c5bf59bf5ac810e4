"""Streaming queries that keep tables of the lake equal to those of Postgres, and report their progress."""
