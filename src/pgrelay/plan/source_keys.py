"""Set keys of the `source` section in a configuration's text, and leave all other text as it was written.

Parsing the file and writing it again would lose comments; editing the text keeps them, and `${NAME}` too.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import yaml

from pgrelay.errors import SetupError

Value: TypeAlias = bool | str | Sequence[str]

_SECTION: Final = "source"


def set_source_keys(text: str, values: Mapping[str, Value], origin: str) -> str:
    """Set these keys of `source` in the text of a configuration that `load` accepts; return the new text.

    Raises SetupError if the old value of a key is or ends with an alias, or has an anchor that one needs.
    """
    root = yaml.compose(text, Loader=yaml.BaseLoader)
    for key, value in values.items():
        assert isinstance(root, yaml.MappingNode)
        section = next((v for k, v in root.value if k.value == _SECTION), None)
        if isinstance(section, yaml.MappingNode):
            text = _set_key(text, section, key, value, origin)
        else:
            text = _set_key(text, root, _SECTION, {key: value}, origin)
        root = _compose(text, key, origin)
    return text


def _compose(text: str, key: str, origin: str) -> yaml.Node | None:
    """The root of the text, now that `key` is set. Raises SetupError if the text is no longer YAML.

    Then the old value had an anchor that an alias needs, or ended with an alias, whose node is elsewhere.
    """
    try:
        return yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        raise SetupError(
            f"{origin}: {error.problem}, once {_SECTION}.{key} is set; write out what the aliases stand for"
        ) from error


def _set_key(
    text: str, mapping: yaml.MappingNode, key: str, value: Value | Mapping[str, Value], origin: str
) -> str:
    for name, old in mapping.value:
        if name.value == key:
            # An alias's node has the position of its anchor.
            if old.start_mark.index < name.end_mark.index:
                raise SetupError(f"{origin}: {key} is a YAML alias, which a plan can't change; write it out")
            return f"{text[: name.end_mark.index]}: {_to_flow(value)}{text[_end(old, text) :]}"
    start = mapping.start_mark
    if mapping.flow_style:
        first = text.index("{", start.index) + 1
        return f"{text[:first]}{key}: {_to_flow(value)}, {text[first:]}"
    if text[start.index] in "&!":  # an anchor or a tag
        start = mapping.value[0][0].start_mark
    line = f"{key}: {_to_flow(value)}\n{' ' * start.column}"
    return text[: start.index] + line + text[start.index :]


def _end(node: yaml.Node, text: str) -> int:
    """Where the node's own text ends, not where the next token begins, as a block's end mark says."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last, text)
    end = int(node.end_mark.index)
    is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return len(text[:end].rstrip()) if is_block else end


def _to_flow(value: object) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return dumped.removesuffix("\n").removesuffix("\n...")
