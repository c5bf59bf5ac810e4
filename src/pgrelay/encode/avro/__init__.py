"""Records in Avro: schemas derived from relations, and bodies written without a value in between."""
