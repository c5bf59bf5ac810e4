"""The contenders: how each gets its slot and its broker, and how we know that it is done."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.builds import Form, environment, pgrelay
from bench.stage import PUBLICATION
from pgrelay.wire.replication import StreamOptions

# The options that pgrelay requests from PostgreSQL 18 by default.
STREAM = StreamOptions(4, (PUBLICATION,), messages=True, streaming="parallel")


@dataclass(frozen=True, slots=True)
class Job:
    """The input of one contender for one run."""

    bin: Path
    port: int
    database: str
    dsn: str
    slot: str
    target: str
    bootstrap: str
    prefix: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Command:
    arguments: list[str | Path]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True, slots=True)
class Contender:
    """`delivers`: writes to topics, else it discards rows; `confirms`: soon confirms to the slot.

    A `peer` is slow: it only runs on request.
    """

    name: str
    command: Callable[[Job], Command]
    delivers: bool = True
    confirms: bool = True
    peer: bool = False

    @property
    def prefix(self) -> str:
        """A name that is valid for a slot and for topics."""
        return self.name.replace(" ", "_")


def recvlogical() -> Contender:
    return Contender("pg_recvlogical", _recvlogical, delivers=False)


def _recvlogical(job: Job) -> Command:
    options = [f"--option={name}={value}" for name, value in STREAM.pairs()]
    connection = [f"--dbname={job.dsn}", f"--slot={job.slot}"]
    return Command(
        [
            job.bin / "pg_recvlogical",
            *connection,
            *options,
            "--start",
            "--no-loop",
            f"--endpos={job.target}",
            "--file=/dev/null",
        ]
    )


Sections = Mapping[str, Mapping[str, Any]]


def relay(form: Form, name: str = "", sections: Sections | None = None) -> Contender:
    """pgrelay with its default configuration except `sections`, which `name` describes.

    Raises RuntimeError if that form can't be built.
    """
    given = sections or {}
    imports = environment(form)

    def command(job: Job) -> Command:
        path = job.folder / f"{job.slot}.yaml"
        path.write_text(yaml.safe_dump(configuration(job, given)))
        return Command(list(pgrelay("run", "--config", str(path))), imports)

    return Contender(f"pgrelay {name or form}", command)


def configuration(job: Job, given: Sections) -> dict[str, dict[str, Any]]:
    """A relay's configuration for the job; `given` overrides it."""
    ours: dict[str, dict[str, Any]] = {
        "source": {"dsn": job.dsn, "slot": job.slot, "publications": [PUBLICATION]},
        "sink": {"kafka": {"bootstrap.servers": job.bootstrap}},
        "records": {"prefix": job.prefix},
        "transactions": {"spool_dir": str(job.folder / "spool")},
        "http": {"listen": None},
    }
    return {section: {**ours.get(section, {}), **given.get(section, {})} for section in {**ours, **given}}
