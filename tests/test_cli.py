"""The commands as a shell sees them: exit codes, stdout for results, stderr for everything else."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pgrelay import errors
from pgrelay.check.findings import Finding
from pgrelay.check.report import as_json, as_text
from pgrelay.cli import main
from pgrelay.config import Config

pytestmark = pytest.mark.usefixtures("restored_logging")

ROOT = Path(__file__).parents[1]
EXAMPLE = str(ROOT / "config.example.yaml")

Give = Callable[[str, str, object], None]
GiveRun = Callable[[object], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Replace one of pgrelay's packages by a module with a single name."""

    def put(module: str, name: str, value: object) -> None:
        room = ModuleType(module)
        setattr(room, name, value)
        monkeypatch.setitem(sys.modules, module, room)

    return put


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a line or two of Python in a new process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.fixture
def give_run(give: Give) -> GiveRun:
    """Replace the relay's run, and turn off the check beside it."""

    def put(run: object) -> None:
        give("pgrelay.check.advice", "advise", None)
        give("pgrelay.relay", "run", run)

    return put


def record_error(commit_lsn: int) -> errors.RecordError:
    error = errors.RecordError("no record")
    error.commit_lsn = commit_lsn
    return error


def relay_that(outcome: BaseException | None) -> Callable[..., object]:
    """A relay's run, or a check, with this outcome."""

    async def run(config: Config, advise: object = None) -> None:
        if outcome is not None:
            raise outcome

    return run


def check_that_finds(*findings: Finding) -> Callable[[Config], object]:
    async def check(config: Config) -> list[Finding]:
        return list(findings)

    return check


@pytest.mark.parametrize(("arguments", "kept"), [([], False), (["--keep-slot"], True)])
def test_a_reset_keeps_the_slot_only_with_keep_slot(
    give: Give, arguments: list[str], kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async def reset(config: Config, *, keep_slot: bool) -> str:
        return f"{config.source.slot} {keep_slot}"

    give("pgrelay.relay.reset", "reset", reset)
    assert main(["reset", "--config", EXAMPLE, *arguments]) == 0
    assert capsys.readouterr().out == f"pgrelay {kept}\n"


def test_a_run_gets_the_configuration_and_exits_with_0(give_run: GiveRun) -> None:
    seen: list[Config] = []

    async def run(config: Config, advise: object) -> None:
        seen.append(config)

    give_run(run)
    assert main(["run", "--config", EXAMPLE]) == 0
    assert seen[0].source.slot == "pgrelay"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SetupError("source.slot: pgrelay is a physical slot; name another"), 2),
        (errors.GapError("slot pgrelay was dropped; see the manual"), 3),
        (errors.RecordError("16/B374D848 public.orders.note: not UTF-8"), 4),
        (errors.PgrelayError("something else"), 1),
    ],
)
def test_an_error_that_stops_a_run_is_one_log_entry_and_its_exit_code(
    give_run: GiveRun, capsys: pytest.CaptureFixture[str], error: errors.PgrelayError, code: int
) -> None:
    give_run(relay_that(error))
    assert main(["run", "--config", EXAMPLE]) == code
    out, err = capsys.readouterr()
    assert out == ""
    entry = json.loads(err)
    assert (entry["event"], entry["level"], entry["exit_code"]) == (str(error), "error", code)


@pytest.mark.parametrize(
    ("error", "name", "command"),
    [
        (errors.GapError("a gap"), "to_begin_anew", "pgrelay reset --config {}"),
        (
            record_error(0x1B95D80),
            "to_skip",
            "pgrelay skip --config {} --lsn 0/1B95D80",
        ),
    ],
)
def test_the_logged_command_to_skip_or_reset_can_be_pasted(
    error: errors.PgrelayError,
    name: str,
    command: str,
    give_run: GiveRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "of the shop.yaml"
    file.write_text(Path(EXAMPLE).read_text())
    give_run(relay_that(error))
    main(["run", "--config", str(file)])
    assert json.loads(capsys.readouterr().err.splitlines()[-1])[name] == command.format(f"'{file}'")


def test_a_bug_in_a_run_logs_its_traceback_and_exits_with_1(
    give_run: GiveRun, capsys: pytest.CaptureFixture[str]
) -> None:
    give_run(relay_that(ZeroDivisionError("oops")))
    assert main(["run", "--config", EXAMPLE]) == 1
    entry = json.loads(capsys.readouterr().err)
    assert entry["event"] == "stopped by a bug in pgrelay; please report it with the traceback"
    assert "ZeroDivisionError: oops" in entry["exception"]


@pytest.mark.parametrize("command", ["run", "check"])
def test_too_little_memory_is_told_as_such(
    command: str, give: Give, give_run: GiveRun, capsys: pytest.CaptureFixture[str]
) -> None:
    give_run(relay_that(MemoryError()))
    give("pgrelay.check", "check", relay_that(MemoryError()))
    assert main([command, "--config", EXAMPLE]) == 1
    err = capsys.readouterr().err
    assert "out of memory; give the process more" in err
    assert "MemoryError" in err
    assert "bug" not in err


@pytest.mark.parametrize("command", ["run", "check"])
def test_mistakes_in_the_configuration_are_lines_and_exit_code_2(
    command: str, give: Give, give_run: GiveRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give_run(relay_that(None))
    give("pgrelay.check", "check", check_that_finds())
    path = tmp_path / "relay.yaml"
    path.write_text("source: {dsn: '', slto: x}\nsink: {kafka: {bootstrap.servers: a, acks: 1}}\n")
    assert main([command, "--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"pgrelay: {path}: source.slto: unknown key; did you mean slot?",
        f"pgrelay: {path}: sink.kafka.acks: can't be '1': a change is confirmed to Postgres only when every "
        "in-sync replica has it; leave it out",
    ]


def test_the_example_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example"]) == 0
    assert capsys.readouterr().out == Path(EXAMPLE).read_text()


def test_an_interrupted_command_exits_with_130(give: Give) -> None:
    give("pgrelay.check", "check", relay_that(KeyboardInterrupt()))
    assert main(["check", "--config", EXAMPLE]) == 130


FINDINGS = (
    Finding("ok", "Postgres 18.4 answers"),
    Finding("warning", "slot pgrelay is active", "PID 77 reads it", "stop that relay, or wait"),
    Finding("error", "wal_level is replica", "changes are not decoded", "set wal_level = logical, restart"),
)


def test_check_prints_its_findings(give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    give("pgrelay.check", "check", check_that_finds(*FINDINGS))
    assert main(["check", "--config", EXAMPLE]) == 2
    assert capsys.readouterr().out == f"{as_text(FINDINGS, coloured=False)}\n"


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_check_is_coloured_on_a_terminal(
    no_color: str,
    coloured: bool,
    give: Give,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give("pgrelay.check", "check", check_that_finds(*FINDINGS))
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(["check", "--config", EXAMPLE])
    assert capsys.readouterr().out == f"{as_text(FINDINGS, coloured)}\n"


def test_check_prints_json(give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    give("pgrelay.check", "check", check_that_finds(*FINDINGS))
    assert main(["check", "--config", EXAMPLE, "--json"]) == 2
    assert capsys.readouterr().out == f"{as_json(FINDINGS)}\n"


def test_check_with_only_warnings_exits_with_0(give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    give("pgrelay.check", "check", check_that_finds(*FINDINGS[:2]))
    assert main(["check", "--config", EXAMPLE]) == 0
    assert capsys.readouterr().out.endswith("\n0 errors, 1 warning\n")


def test_check_that_finds_a_gap_exits_with_3_like_a_run(give: Give) -> None:
    gap = Finding("error", "slot pgrelay is lost", "changes are gone", "begin anew", gap=True)
    give("pgrelay.check", "check", check_that_finds(gap, *FINDINGS))
    assert main(["check", "--config", EXAMPLE]) == 3


def test_check_as_json_has_configuration_mistakes_as_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "relay.yaml"
    file.write_text("source: {slott: x}\nsink: {kafka: {bootstrap.servers: 'k:1'}, partitions: 0}\n")
    assert main(["check", "--config", str(file), "--json"]) == 2
    out, err = capsys.readouterr()
    findings = json.loads(out)
    assert len(findings) == err.count("\n") > 0
    assert {each["level"] for each in findings} == {"error"}
    assert any("source.slott: " in each["what"] for each in findings)
    assert all(each["cure"] for each in findings)
    partitions = next(each for each in findings if "sink.partitions" in each["what"])
    assert partitions["what"].endswith("sink.partitions: got '0'")
    assert partitions["cure"] == "write 1 or more"


def test_check_without_json_prints_configuration_mistakes_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--config", str(tmp_path / "no.yaml")]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], (None, False, False)),
        (["--rows", "5"], (5, False, False)),
        (["--keep"], (None, True, False)),
        (["--spark"], (None, False, True)),
    ],
)
def test_demo_gets_its_arguments_and_gives_its_exit_code(
    give: Give, monkeypatch: pytest.MonkeyPatch, arguments: list[str], wanted: tuple[int | None, bool, bool]
) -> None:
    asked: list[tuple[int | None, bool, bool]] = []

    def demo(rows: int | None, keep: bool, spark: bool) -> int:
        asked.append((rows, keep, spark))
        return 7

    give("pgrelay.demo", "demo", demo)
    monkeypatch.setattr("pgrelay.cli._require_pyspark", lambda command: None)  # it need not be installed
    assert main(["demo", *arguments]) == 7
    assert asked == [wanted]


@pytest.mark.parametrize("command", ["spark-mirror --config mirror.yaml", "demo --spark"])
def test_without_pyspark_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(command.split()) == 2
    needs = "needs PySpark, which is not installed: pip install 'pgrelay[spark]'"
    assert capsys.readouterr().err == f"pgrelay: {command.removesuffix(' --config mirror.yaml')} {needs}\n"


def test_a_bug_prints_its_traceback_and_exits_with_1(give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    give("pgrelay.check", "check", relay_that(ZeroDivisionError("oops")))
    assert main(["check", "--config", EXAMPLE]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [
        "ZeroDivisionError: oops",
        "pgrelay: stopped by a bug in pgrelay; please report it with the traceback",
    ]


def test_schema_prints_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert list(schema["properties"]) == list(Config.model_fields)
    assert schema["required"] == ["source", "sink"]
    assert schema["$defs"]["SourceConfig"]["properties"]["snapshot"]["const"] == "never"


def test_a_missing_file_is_one_line_and_exit_code_2() -> None:
    done = python("from pgrelay.cli import main; raise SystemExit(main(['check', '--config', 'no.yaml']))")
    assert done.returncode == 2
    assert done.stdout == ""
    cure = "begin with a copy of config.example.yaml, which pgrelay example prints"
    assert done.stderr == f"pgrelay: no.yaml: no such file; {cure}\n"


def test_help_imports_neither_client_nor_asyncio() -> None:
    done = python(
        "import sys; from pgrelay.cli import main\ntry: main(['--help'])\nfinally: print(sorted(sys.modules))"
    )
    assert done.returncode == 0
    for module in ("confluent_kafka", "psycopg", "asyncio"):
        assert f"'{module}'" not in done.stdout
