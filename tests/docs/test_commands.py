"""The commands shown exist: our parser parses ours, and make's targets and modules are looked up.

They are not run here, because they run elsewhere or belong to somebody else:

- `pgrelay …`: tests/integration and tests/demo do; the quick start's are run by a test of its own.
- `make …`, `python -m bench…`: they are what CI and the measurements run.
- `pip`, `curl`, `docker`, `kubectl` and the like: other people's commands.
"""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator

import pytest

from pgrelay.arguments import parser
from tests.docs.pages import ROOT, Block, blocks, pages, prose

_SHELL = ("", "sh", "bash", "shell", "console")
_INLINE = re.compile(r"`((?:pgrelay|make|python -m) [^`]+)`")
_PLACEHOLDERS = {"X/Y": "16/B374D848", "N": "2", "…": ""}


def shown() -> Iterator[tuple[str, str]]:
    """Each command with its place, without comments and redirections."""
    for block in blocks(*_SHELL):
        yield from _of_block(block)
    for page, text in pages().items():
        for command in _INLINE.findall(prose(text)):
            yield page, command


def _of_block(block: Block) -> Iterator[tuple[str, str]]:
    for n, line in enumerate(block.text.replace("\\\n", " ").splitlines(), 1):
        command = line.removeprefix("$ ").strip()
        if command.startswith(("pgrelay ", "make ", "python -m ", "pip install ")):
            yield f"{block.page}:{block.line + n}", command


COMMANDS = list(shown())


def of(program: str) -> list[tuple[str, str]]:
    return [(where, command) for where, command in COMMANDS if command.startswith(program)]


def words(command: str) -> list[str]:
    """The arguments as a shell splits them, up to a redirection or a pipe."""
    cut = re.split(r" (?:>|\||&&) ?", command)[0]
    return [_PLACEHOLDERS.get(word, word) for word in shlex.split(cut, comments=True)[1:]]


@pytest.mark.parametrize(("where", "command"), of("pgrelay "))
def test_our_commands_parse(where: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = words(command)
    if arguments == ["--version"]:
        return
    known = {action for group in parser()._actions if group.choices for action in group.choices}
    if len(arguments) == 1 and arguments[0] in known:
        return  # only the name of a command in a sentence
    try:
        parser().parse_args(arguments)
    except SystemExit:
        pytest.fail(f"{where}: {command}: {capsys.readouterr().err}")


@pytest.mark.parametrize(("where", "command"), of("make "))
def test_make_targets_exist(where: str, command: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [word for word in words(command) if "=" not in word]
    assert targets, where
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"{where}: make {target}"


@pytest.mark.parametrize(("where", "command"), of("python -m "))
def test_modules_exist(where: str, command: str) -> None:
    module = words(command)[1]
    assert importlib.util.find_spec(module) is not None, f"{where}: {module}"


@pytest.mark.parametrize(("where", "command"), of("pip install "))
def test_extras_are_declared(where: str, command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"\[([\w,]+)\]", command):
        assert set(extra.split(",")) <= set(project["optional-dependencies"]), where


def test_commands_of_every_kind_are_found() -> None:
    for program in (
        "pgrelay run",
        "pgrelay check",
        "pgrelay plan",
        "make bench",
        "python -m bench",
        "pip install",
    ):
        assert of(program), program
