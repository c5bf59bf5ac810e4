"""Postgres's text of values, as its output functions print them, to JSON or the marks of another format."""
