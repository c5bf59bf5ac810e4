"""Delta and Iceberg tables: applying batches of changes to them, and their upkeep."""
