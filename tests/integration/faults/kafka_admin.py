"""What an operator changes at the broker, or queries from it."""

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from pgrelay.kafka.errors import error_text
from tests.integration.acls import add_acls, remove_acls

# Settings of a broker whose clients may do everything until an ACL is added.
ACLS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def allow_records_of(size: int, bootstrap: str, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.incremental_alter_configs([resource])[resource].result()


def refusal_of_topics(client: AdminClient) -> str:
    """Why no topic can be created now; empty if one can."""
    try:
        client.create_topics([NewTopic("new")], validate_only=True)["new"].result()
    except KafkaException as refusal:
        return error_text(refusal)
    return ""


class Acls:
    """The ACLs of the broker for its clients, which are anonymous here."""

    def __init__(self, bootstrap: str) -> None:
        self._client = AdminClient({"bootstrap.servers": bootstrap})
        self._added: list[AclBindingFilter] = []

    def add(
        self, kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType
    ) -> None:
        which = (kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)
        add_acls(self._client, [AclBinding(*which)])
        self._added.append(AclBindingFilter(*which))

    def remove_all(self) -> None:
        """Remove all ACLs; without any, every client may do everything."""
        remove_acls(self._client, self._added)
        self._added = []
