"""What is asked of Postgres: the replication stream, and the catalogue beside it. Nothing of Kafka."""
