"""The relay's status for people: the status page, and the same content in a terminal."""
