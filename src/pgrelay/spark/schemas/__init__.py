"""What the tables were: their columns through time, told by the schema topic, a registry or Postgres."""
