"""What talks to Postgres: the replication stream, and the catalogue beside it. Nothing of Kafka."""
