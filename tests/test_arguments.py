"""The accepted command lines, and what --help says about them."""

import re

import pytest

from pgrelay import __version__
from pgrelay.arguments import parser
from pgrelay.encode.values.digits import COMPILED


def test_version_says_whether_the_hot_path_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(["--version"])
    assert caught.value.code == 0
    how = "compiled" if COMPILED else "interpreted"
    assert capsys.readouterr().out == f"pgrelay {__version__} ({how})\n"


COMMANDS = ["run", "skip", "reset", "check", "status", "spark-mirror", "demo", "plan", "schema", "example"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_listed_and_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    out = capsys.readouterr().out
    assert command in [line.split()[0] for line in out.splitlines() if line[:4].isspace()]
    assert "example:\n  pgrelay run" in out
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    assert f"example:\n  pgrelay {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("run", "Exit codes: pgrelay --help."),
        ("skip", "Stop the relay first. The changes of that transaction will be in no topic"),
        ("reset", "Stop the relay first. What the slot still held never reaches the topics"),
        ("demo", "pip install 'pgrelay[demo]'"),
        ("spark-mirror", "pip install 'pgrelay[spark]'"),
    ],
)
def test_help_says_what_to_know_before_running_a_command(
    command: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["check"],
        ["status"],
        ["plan", "--config", "x", "--shards", "0"],
        ["skip", "--config", "relay.yaml", "--lsn", "0/0"],
        ["demo", "--rows", "0"],
        ["demo", "--rows", "x"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pgrelay")
    assert re.search(r"; for example: pgrelay \w+.*\n\Z", err)
    assert err.count("\n") == 1
