"""Converts values from Postgres's text, as its output functions print it, to JSON or another format."""
