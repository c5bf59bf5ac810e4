"""Converts values in binary, as their types' send functions write them, to JSON or to Postgres's text."""
