"""Divide one relay's tables among several relays: configuration files, and the SQL that goes with them.

Theory of operation. One slot is one ordered stream, so several streams need several slots, each with its own
publication. `tables` asks what is published, how much WAL it makes and which tables foreign keys tie
together; `shards` divides the tables; `source_keys` writes each share into a copy of the configuration's
text; `statements` has the SQL. A plan only creates files: it changes nothing in Postgres or Kafka.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from pgrelay.config import Config, load
from pgrelay.errors import SetupError
from pgrelay.plan.shards import Shard, balance, group_tables
from pgrelay.plan.source_keys import set_source_keys
from pgrelay.plan.statements import Part, script
from pgrelay.plan.tables import Tables, published_tables
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import Slot

__all__ = ["plan"]

_LONGEST_NAME: Final = 63


@dataclass(frozen=True, slots=True)
class _Found:
    version: int
    slot: Slot | None
    published: bool
    tables: Tables


async def plan(
    path: Path, count: int, folder: Path | None = None, *, ignore_foreign_keys: bool = False
) -> str:
    """Write `count` configurations, NAME-1.yaml and so on, beside `path` or in `folder`; return the SQL.

    A missing `folder` is created. Tables tied by foreign keys stay together, unless `ignore_foreign_keys`.
    Raises SetupError, and then leaves no file behind.
    """
    config = load(path)
    _require_file(path)
    files = [(folder or path.parent) / f"{path.stem}-{n}{path.suffix}" for n in range(1, count + 1)]
    _require_absent(files)
    found = await _inspect(config)
    shards = _divide(found.tables, count, ignore_foreign_keys)
    parts = [
        Part(file, f"{config.source.slot}_{n}", f"{config.source.publications[0]}_{n}", shard)
        for n, (file, shard) in enumerate(zip(files, shards, strict=True), 1)
    ]
    _require_short_names(parts)
    # An existing slot or publication is carried over by hand, in an order in which nothing is lost.
    create = config.source.create and found.slot is None and not found.published
    _write(path, config, parts, create)
    return script(config, parts, found.tables, found.version, found.slot is not None, create)


async def _inspect(config: Config) -> _Found:
    source = config.source
    async with Catalog(source.dsn) as catalog:
        if await catalog.in_recovery():
            raise SetupError(
                "source.dsn is a standby's address, and a standby counts no writes; plan with the primary's "
                "address: PGRELAY_SOURCE__DSN overrides the file's"
            )
        slot = await catalog.slot(source.slot)
        published = len(await catalog.publications(source.publications)) == len(set(source.publications))
        return _Found(catalog.server_version, slot, published, await published_tables(catalog, source))


def _divide(found: Tables, count: int, ignore_foreign_keys: bool) -> list[Shard]:
    volumes = {table.entry: table.volume for table in found.published}
    groups = group_tables(volumes, () if ignore_foreign_keys else found.ties)
    if len(groups) >= count:
        return balance(groups, volumes, count)
    if len(volumes) < count:
        raise SetupError(f"--shards: {count} is more than the {len(volumes)} published tables; ask for fewer")
    raise SetupError(
        f"--shards: foreign keys tie the {len(volumes)} published tables into {len(groups)} groups, fewer "
        f"than {count}; ask for fewer, or separate related tables with --ignore-foreign-keys"
    )


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise SetupError(f"{path}: is not a regular file, which a plan needs; save it as a file")


def _require_absent(files: Sequence[Path]) -> None:
    # Not Path.exists: it raises for a path in a directory that we may not search. Writing reports that.
    existing = [str(file) for file in files if os.path.exists(file)]
    if existing:
        names = ", ".join(existing)
        raise SetupError(f"{names}: exists already; move it away, or name a folder with --output")


def _require_short_names(parts: Sequence[Part]) -> None:
    for key, names in (("slot", [p.slot for p in parts]), ("publications", [p.publication for p in parts])):
        long = [name for name in names if len(name.encode()) > _LONGEST_NAME]
        if long:
            raise SetupError(f"source.{key}: {long[0]} has more than {_LONGEST_NAME} bytes; shorten the name")


def _write(origin: Path, config: Config, parts: Sequence[Part], create: bool) -> None:
    """Write each part's file and load it again; remove all if one can't be written or loads differently."""
    text = origin.read_text(encoding="utf-8-sig")
    with ExitStack() as undo:
        folder = parts[0].file.parent
        _make_folder(folder, undo)
        for n, part in enumerate(parts):
            values: dict[str, Any] = {
                "slot": part.slot,
                "publications": (part.publication,),
                "tables": part.shard.tables,
                "create": create,
                # Every slot gets every logical message, whatever its publication: only one relay relays them.
                "messages": config.source.messages and n == 0,
            }
            _write_new(part.file, origin, set_source_keys(text, _changed(config, values), str(origin)), undo)
            expected = config.model_copy(update={"source": config.source.model_copy(update=values)})
            if load(part.file) != expected:
                raise SetupError(
                    f"{part.file}: is overridden by the environment; unset PGRELAY_SOURCE__SLOT, "
                    "PGRELAY_SOURCE__PUBLICATIONS and the like, then plan again"
                )
        undo.pop_all()


def _changed(config: Config, values: dict[str, Any]) -> dict[str, Any]:
    """The keys whose values differ, last first: each new one is inserted at the top of the section."""
    written = {key: value for key, value in values.items() if getattr(config.source, key) != value}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in reversed(written.items())}


def _make_folder(folder: Path, undo: ExitStack) -> None:
    missing = takewhile(lambda path: not os.path.exists(path), (folder, *folder.parents))
    try:
        for each in reversed([*missing]):
            each.mkdir()
            undo.callback(each.rmdir)
    except OSError as error:
        raise SetupError(
            f"{folder}: can't be created: {error.strerror}; name another with --output"
        ) from None


def _write_new(file: Path, origin: Path, text: str, undo: ExitStack) -> None:
    try:
        # The original may hold secrets: the copy starts private and then gets the original's mode.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        undo.callback(file.unlink)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        shutil.copymode(origin, file)
    except OSError as error:
        raise SetupError(f"{file}: can't be written: {error.strerror}; name a folder with --output") from None
