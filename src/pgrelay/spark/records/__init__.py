"""From the topics' records, JSON or Avro, to changes with typed rows."""
