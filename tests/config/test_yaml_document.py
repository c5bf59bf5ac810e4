"""YAML without surprises: scalars are kept as written, and errors have a line number."""

import pytest

from pgrelay.config.yaml_document import Tree, parse_yaml
from pgrelay.errors import SetupError

CURE = "check the indentation, and quote values that contain special characters"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", None),
        ("a: off", {"a": "off"}),
        ("a: 8080:30", {"a": "8080:30"}),
        ("a: 0123", {"a": "0123"}),
        ("a: 0.10", {"a": "0.10"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: 2026-11-20", {"a": "2026-11-20"}),
        ("a: true", {"a": "true"}),
        ("a:\nb: ~\nc: null\nd: 'null'\ne: ''", {"a": None, "b": None, "c": None, "d": "null", "e": ""}),
        ("a: [1, x, {b: 2}]", {"a": ["1", "x", {"b": "2"}]}),
        ("1: a", {"1": "a"}),
        ("a: &x [1]\nb: *x", {"a": ["1"], "b": ["1"]}),
        ("a: !!int 3", {"a": "3"}),
    ],
)
def test_scalars_are_kept_as_text(text: str, tree: Tree) -> None:
    assert parse_yaml(text, "f.yaml") == tree


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3: a: given twice, first on line 1; keep one"),
        ("a:\n  b: 1\n  b: 1", "f.yaml:3: b: given twice, first on line 2; keep one"),
        ("a: 1\n b: 2", f"f.yaml:2: mapping values are not allowed here; {CURE}"),
        ("a: 1\n\tb: 2", f"f.yaml:2: found character '\\t' that cannot start any token; {CURE}"),
        ("a: [1\nb: 2", f"f.yaml:2: expected ',' or ']', but got ':'; {CURE}"),
        (
            'a: ["public\\.orders"]',
            "f.yaml:1: in double quotes, a backslash begins an escape; put a pattern in single quotes",
        ),
        ("a: *x", f"f.yaml:1: a value that begins with * or ! is special in YAML; {CURE}"),
        ("a: !x", "f.yaml:1: a value that begins with & or ! is special in YAML; quote it"),
        ("b: 1\na: !x y", "f.yaml:2: a value that begins with & or ! is special in YAML; quote it"),
        ("a: !!x y", "f.yaml:1: a value that begins with & or ! is special in YAML; quote it"),
        ("a: &x", "f.yaml:1: a value that begins with & or ! is special in YAML; quote it"),
        ("a: &x y\nb: 1", "f.yaml:1: a value that begins with & or ! is special in YAML; quote it"),
        ("a: 1\nb: 'x\nc: 2\n", "f.yaml:2: a bracket or quote is never closed; close it"),
        ('a: 1\nb: "x\nc: 2\n', "f.yaml:2: a bracket or quote is never closed; close it"),
        ("a: 1\nb: [x,\n  2\n", "f.yaml:2: a bracket or quote is never closed; close it"),
        ("a: {b: 1\n", "f.yaml:1: a bracket or quote is never closed; close it"),
        ("a: !x!y z", f"f.yaml:1: a value that begins with * or ! is special in YAML; {CURE}"),
        (
            "a: 1\n---\nb: 2",
            f"f.yaml:2: expected a single document in the stream but found another document; {CURE}",
        ),
        ("? [a]\n: 1", "f.yaml:1: a key must be text, not a list or mapping; write key: value"),
        ("a: &x [*x]", "f.yaml:1: nested too deeply; sections hold keys, and keys hold values"),
        ("a: \x01", "f.yaml: contains control characters, which YAML doesn't allow; remove them"),
    ],
)
def test_an_error_is_one_line_with_a_line_number(text: str, line: str) -> None:
    with pytest.raises(SetupError) as caught:
        parse_yaml(text, "f.yaml")
    assert str(caught.value) == line


def test_too_many_nested_brackets_are_a_one_line_error() -> None:
    with pytest.raises(SetupError, match=r"^f\.yaml:1: nested too deeply; sections hold keys"):
        parse_yaml("a: " + "[" * 1000 + "]" * 1000, "f.yaml")
