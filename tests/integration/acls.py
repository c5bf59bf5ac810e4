"""ACLs at the broker. It applies them some time after it has confirmed them, so tests wait for that."""

from collections.abc import Sequence

from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient  # type: ignore[attr-defined]

from tests.integration.waiting import wait_until


def add_acls(client: AdminClient, bindings: Sequence[AclBinding]) -> None:
    for added in client.create_acls(list(bindings)).values():
        added.result()
    wait_until(lambda: all(_found(client, each) for each in bindings), "the rights to hold")


def remove_acls(client: AdminClient, filters: Sequence[AclBindingFilter]) -> None:
    for removed in client.delete_acls(list(filters)).values():
        removed.result()
    wait_until(
        lambda: not any(client.describe_acls(each).result() for each in filters), "them to hold no more"
    )


def _found(client: AdminClient, binding: AclBinding) -> bool:
    """Whether the broker's authorizer has the binding."""
    exactly = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    return bool(client.describe_acls(exactly).result())
