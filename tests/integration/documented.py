"""The commands from docs/security.md and operations.md, so that tests run exactly these."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AclBinding  # type: ignore[attr-defined]

_DOCS = Path(__file__).parents[2] / "docs"
_SECURITY = _DOCS / "security.md"

_PLACEHOLDER = "'…'"


def role_statements(password: str) -> list[str]:
    """The SQL that creates the least role, for a database `app` with the tables orders and customers."""
    [block] = re.findall(r"^```sql\n(.*?)^```", _SECURITY.read_text(), re.MULTILINE | re.DOTALL)
    assert block.count(_PLACEHOLDER) == 1
    without_comments = re.sub(r"^--.*\n", "", block, flags=re.MULTILINE)
    statements = without_comments.replace(_PLACEHOLDER, f"'{password}'").split(";")
    return [statement.strip() for statement in statements if statement.strip()]


def without_two_phase(slot: str) -> list[str]:
    """The SQL that turns off two-phase commit for a slot."""
    _, section = (_DOCS / "operations.md").read_text().split("## A transaction that Postgres can't stream")
    [block] = re.findall(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [line.replace("'pgrelay", f"'{slot}") for line in block.splitlines()]


def acl_bindings(prefix: str, *, exactly_once: bool) -> list[AclBinding]:
    """The ACLs that kafka-acls.sh adds, with `prefix` in place of `app`."""
    always, once, _ = _blocks()
    return _in_force(always + once * exactly_once, prefix)


def acl_bindings_of_mirrors(prefix: str) -> list[AclBinding]:
    """The same for a mirror's user, which is `mirror`."""
    *_, mirrors = _blocks()
    return _in_force(mirrors, prefix)


def _blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", _SECURITY.read_text(), re.MULTILINE | re.DOTALL)


def _in_force(commands: str, prefix: str) -> list[AclBinding]:
    lines = commands.replace("\\\n", "").splitlines()
    assert all(re.search(r" (app\.|pgrelay-)", line) for line in lines)
    return [
        binding for line in lines for binding in _bindings(shlex.split(line.replace(" app.", f" {prefix}.")))
    ]


def _bindings(command: list[str]) -> Iterator[AclBinding]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--command-config", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for kind in ("topic", "transactional-id", "group"):
        parser.add_argument(f"--{kind}", action="append", default=[])
    assert command[0] == "kafka-acls.sh"
    options = parser.parse_args(command[1:])
    for kind in ("topic", "transactional_id", "group"):
        for name in getattr(options, kind):
            for operation in options.operation:
                yield AclBinding(
                    kind,
                    name,
                    options.resource_pattern_type,
                    options.allow_principal,
                    "*",
                    re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower(),
                    "allow",
                )
