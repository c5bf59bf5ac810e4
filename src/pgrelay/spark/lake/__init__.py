"""Tables of Delta and Iceberg: what a batch of changes does to one, and their upkeep."""
