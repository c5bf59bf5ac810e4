"""What is asked of Kafka and the schema registry: producers, topics, positions. Nothing of Postgres."""
