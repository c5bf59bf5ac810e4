"""The architecture's rules: pure packages stay pure, only the relay knows both ends, files stay short."""

import ast
import functools
import itertools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"

PURE = [
    "pgrelay.wire",
    "pgrelay.encode",
    "pgrelay.assembly",
    "pgrelay.handover",
    "pgrelay.progress",
    "pgrelay.lsn",
    "pgrelay.errors",
    "pgrelay.printable",
]
IMPURE = {
    "asyncio",
    "confluent_kafka",
    "logging",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "socket",
    "structlog",
    "subprocess",
    "threading",
    "time",
}
FILES = {"fcntl", "io", "mmap", "os", "pathlib", "shutil", "tempfile"}
# The rooms' modules that keep waiting transactions on disk, and say where.
ON_DISK = {f"pgrelay.assembly.{name}" for name in ("prepared", "spool", "spool_base", "spool_files")}
CLOCKS = {"now", "today", "utcnow"}
BOTH_ENDS = ["pgrelay.relay", "pgrelay.cli", "pgrelay.demo", "pgrelay.check"]
# The packages of spark/; each may import those before it.
SPARK_LAYERS = ["schemas", "records", "lake", "mirrors"]
LONGEST = 400


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(), path) for name, path in MODULES.items()}


@functools.cache
def imports(module: str) -> set[str]:
    """Every dotted name that a module imports anywhere; for `from a import b`, both a and a.b."""
    names = set[str]()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def reached(module: str) -> set[str]:
    """The module, its packages, and every pgrelay module that importing it imports."""
    seen, todo = set[str](), {module}
    while todo:
        name = todo.pop()
        seen.add(name)
        todo |= {name.rpartition(".")[0], *imports(name)} & MODULES.keys() - seen
    return seen


def inside(room: str) -> list[str]:
    return [name for name in MODULES if name == room or name.startswith(room + ".")]


PURE_MODULES = [name for room in PURE for name in inside(room)]


@pytest.mark.parametrize("room", PURE)
def test_every_pure_room_exists(room: str) -> None:
    assert inside(room)


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_pure_room_imports_no_io_and_no_logging(module: str) -> None:
    offences = {
        f"{name} imports {imported}"
        for name in reached(module)
        for imported in imports(name)
        if imported.partition(".")[0] in IMPURE
    }
    assert not offences


def test_only_what_waits_on_disk_knows_files() -> None:
    users = {
        name
        for module in PURE_MODULES
        for name in reached(module)
        if any(imported.partition(".")[0] in FILES for imported in imports(name))
    }
    assert users == ON_DISK


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_pure_room_reads_no_clock(module: str) -> None:
    offences = {
        f"{name}:{node.lineno} .{node.attr}"
        for name in reached(module)
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS
    }
    assert not offences


def test_errors_keep_no_default_in_their_class() -> None:
    """Compiled, an exception has no attribute that only its class sets, unless that is a ClassVar."""
    classes = [
        node for name in PURE_MODULES for node in ast.walk(TREES[name]) if isinstance(node, ast.ClassDef)
    ]
    errors = {"Exception"}
    # A module, or the order of the classes in it, may name an error before the error it derives from.
    for _ in classes:
        errors |= {found.name for found in classes if errors & {ast.unparse(base) for base in found.bases}}
    assert {"RecordRefused", "ProduceError"} <= errors
    kept = [
        f"{found.name}: {ast.unparse(line)}"
        for found in classes
        if found.name in errors
        for line in found.body
        if isinstance(line, (ast.Assign, ast.AnnAssign)) and "ClassVar[" not in ast.unparse(line)
    ]
    assert kept == []


def test_only_the_relay_knows_both_ends() -> None:
    allowed = {name for room in BOTH_ENDS for name in inside(room)}
    ends = [set(inside("pgrelay.postgres")), set(inside("pgrelay.kafka"))]
    both = {name for name in MODULES if all(end & imports(name) for end in ends)}
    assert both <= allowed


def test_the_relay_leaves_sql_to_the_rooms_of_postgres() -> None:
    assert not {name for name in inside("pgrelay.relay") if "psycopg" in imports(name)}


def test_spark_imports_nothing_of_the_daemon() -> None:
    spark = inside("pgrelay.spark")
    needed = {name for module in spark for name in reached(module)}
    downloads = {"pgrelay.embedded", "pgrelay.embedded.cache", "pgrelay.embedded.jars"}
    signals = {"pgrelay.early_stop"}
    assert needed <= {"pgrelay", *spark, *PURE_MODULES, *downloads, *signals}


@pytest.mark.parametrize(("lower", "higher"), list(itertools.combinations(SPARK_LAYERS, 2)))
def test_a_layer_of_spark_imports_none_above_it(lower: str, higher: str) -> None:
    above = set(inside(f"pgrelay.spark.{higher}"))
    assert above
    below = inside(f"pgrelay.spark.{lower}")
    offences = {f"{name} imports {each}" for name in below for each in imports(name) & above}
    assert not offences


@pytest.mark.parametrize(
    "path",
    [path.relative_to(ROOT) for top in ("src", "tests") for path in sorted((ROOT / top).rglob("*.py"))],
    ids=str,
)
def test_a_file_has_at_most_400_lines(path: Path) -> None:
    lines = len((ROOT / path).read_text().splitlines())
    assert lines <= LONGEST
