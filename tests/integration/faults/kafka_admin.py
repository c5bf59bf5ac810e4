"""What an operator changes at the broker."""

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


def allow_records_of(size: int, bootstrap: str, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.incremental_alter_configs([resource])[resource].result()


class Acls:
    """What the broker lets its clients do, who have no names here."""

    def __init__(self, bootstrap: str) -> None:
        self._client = AdminClient({"bootstrap.servers": bootstrap})
        self._added: list[AclBindingFilter] = []

    def add(
        self, kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType
    ) -> None:
        which = (kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)
        acl = AclBinding(*which)
        self._client.create_acls([acl])[acl].result()
        self._added.append(AclBindingFilter(*which))

    def remove_all(self) -> None:
        """With none left, everybody may do everything."""
        for removed in self._client.delete_acls(self._added).values():
            removed.result()
        self._added = []
