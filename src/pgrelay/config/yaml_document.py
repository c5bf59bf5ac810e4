"""Read YAML into plain mappings, lists and text.

Scalars stay the text that was written, except an unquoted `null`, `~` or nothing, which is None. The key
decides what the text means. So YAML 1.1 can't guess wrong about a value (`off` as a boolean, `8080:30` as a
number in base 60, `0.10` as 0.1), nor about a password that looks like a number.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

import yaml

from pgrelay.config.secrets import mask_text
from pgrelay.errors import SetupError
from pgrelay.printable import printable

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | None"

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})

# Deeper than any configuration; stops at a document that contains itself (`&a [*a]`).
_MAX_DEPTH: Final = 16
# YAML's own tags are accepted and ignored: the key decides the type of a value.
_TAGS: Final = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float", "seq", "map")
)
_SPECIAL: Final = "a value that begins with & or ! is special in YAML; quote it"
_TOO_DEEP: Final = "nested too deeply; sections hold keys, and keys hold values"


def parse_yaml(text: str, origin: str) -> Tree:
    """Read one YAML document; None if it is empty.

    `origin` names the file or variable in errors. Raises SetupError, one line with the origin and the line
    number, for a syntax error, a duplicate key, or a key that is not text. Errors never quote a value.
    """
    try:
        _check_events(yaml.parse(text, Loader=yaml.BaseLoader), origin)
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        raise SetupError(_syntax_error(error, origin)) from None
    except yaml.YAMLError:
        raise SetupError(
            f"{origin}: contains control characters, which YAML doesn't allow; remove them"
        ) from None
    return None if root is None else _plain(root, origin, 0)


def _check_events(events: Iterable[yaml.Event], origin: str) -> None:
    """Refuse deep nesting, and tags and unused anchors: they were meant as text, but YAML would drop them."""
    anchors: dict[str, int] = {}
    depth = 0
    for event in events:
        # Checked this early because the parser's time grows with the square of the depth.
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise SetupError(f"{origin}:{_line(event)}: {_TOO_DEEP}")
        if isinstance(event, yaml.AliasEvent):
            anchors.pop(str(event.anchor), None)
        elif isinstance(event, yaml.NodeEvent):
            if event.anchor is not None:
                anchors[event.anchor] = _line(event)
            if (getattr(event, "tag", None) or _TAGS[0]) not in _TAGS:
                raise SetupError(f"{origin}:{_line(event)}: {_SPECIAL}")
    if anchors:
        raise SetupError(f"{origin}:{min(anchors.values())}: {_SPECIAL}")


def _plain(node: yaml.Node, origin: str, depth: int) -> Tree:
    if depth > _MAX_DEPTH:
        raise SetupError(f"{origin}:{_line(node)}: {_TOO_DEEP}")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, origin, depth)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, origin, depth + 1) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)
    unquoted = node.style is None
    return None if unquoted and node.value in _NULL else str(node.value)


def _mapping(node: yaml.MappingNode, origin: str, depth: int) -> dict[str, Tree]:
    mapping: dict[str, Tree] = {}
    first_line: dict[str, int] = {}
    for key, value in node.value:
        line = _line(key)
        if not isinstance(key, yaml.ScalarNode):
            raise SetupError(f"{origin}:{line}: a key must be text, not a list or mapping; write key: value")
        name = str(key.value)
        if name in mapping:
            shown = printable(mask_text(name))
            raise SetupError(
                f"{origin}:{line}: {shown}: given twice, first on line {first_line[name]}; keep one"
            )
        first_line[name] = line
        mapping[name] = _plain(value, origin, depth + 1)
    return mapping


def _line(node: yaml.Node | yaml.Event) -> int:
    assert node.start_mark is not None
    return int(node.start_mark.line) + 1


def _syntax_error(error: yaml.MarkedYAMLError, origin: str) -> str:
    where = f"{origin}:{error.problem_mark.line + 1}" if error.problem_mark else origin
    problem = error.problem or "not YAML"
    if error.context_mark and ("end of stream" in problem or "<stream end>" in problem):
        return f"{origin}:{error.context_mark.line + 1}: a bracket or quote is never closed; close it"
    if "unknown escape character" in problem:
        return f"{where}: in double quotes, a backslash begins an escape; put a pattern in single quotes"
    if problem.startswith("but "):
        problem = f"{error.context} {problem}"
    if "alias" in problem or "tag" in problem:
        # PyYAML quotes the value here, and it may be a password.
        problem = "a value that begins with * or ! is special in YAML"
    return f"{where}: {problem}; check the indentation, and quote values that contain special characters"
