"""Commands of Kafka's own tools, for cures."""


def grant(topic: str, *operations: str) -> str:
    """Allow us these operations on a topic, such as `Write`."""
    rights = " ".join(f"--operation {operation}" for operation in operations)
    return f"kafka-acls.sh --add --allow-principal User:... {rights} --topic {topic}"


def configure(topic: str, option: str) -> str:
    """Set an option of a topic, given as `name=value`."""
    return f"kafka-configs.sh --alter --topic {topic} --add-config {option}"
