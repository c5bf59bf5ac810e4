"""What talks to Kafka and the schema registry: producers, topics, positions. Nothing of Postgres."""
