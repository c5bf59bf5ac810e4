"""The tables' columns through time, from the schema topic, a registry or Postgres."""
