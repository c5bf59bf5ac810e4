"""The commands of Kafka's own tools that cures name."""


def grant(topic: str, *operations: str) -> str:
    """Let us do these with a topic."""
    rights = " ".join(f"--operation {operation}" for operation in operations)
    return f"kafka-acls.sh --add --allow-principal User:... {rights} --topic {topic}"


def configure(topic: str, option: str) -> str:
    """Set an option of a topic, `name=value`."""
    return f"kafka-configs.sh --alter --topic {topic} --add-config {option}"
