"""How the relay is, for a person: the status page, and the same in a terminal."""
