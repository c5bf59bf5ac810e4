"""Values in binary, as the send functions of their types write them, to JSON or to Postgres's text."""
