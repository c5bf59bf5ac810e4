"""`make bench`: every contender on every workload, interleaved, in one table and in bench/results.json."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.contenders import Contender, recvlogical, relay
from bench.debezium import debezium
from bench.drain import Run, drain
from bench.report import as_json, print_table, write_results
from bench.stage import Load, Stage, loaded, servers
from bench.topics import Topics
from bench.workloads import WORKLOADS, Workload, named
from pgrelay.embedded.registry import SchemaRegistry

_RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    options = _options()
    workloads = [named(name).scaled(options.scale) for name in options.workloads.split(",")]
    done: list[dict[str, object]] = []
    void = False
    with (
        tempfile.TemporaryDirectory(prefix="pgrelay-bench-") as folder,
        _contenders(options) as contenders,
        servers(Path(folder)) as stage,
    ):
        _warm_up(stage, contenders)
        for workload in workloads:
            taking_part = [one for one in contenders if not one.peer or workload.name in options.peers]
            with loaded(stage, workload) as load:
                rounds = _rounds(stage, load, taking_part, options.rounds)
            print_table(load, rounds)
            done.append(as_json(load, rounds))
            void = void or any(run.void for runs in rounds for run in runs)
            write_results(_RESULTS, done, stage.postgres.version)
    print(f"\n{_RESULTS}")
    return 1 if void else 0


@contextmanager
def _contenders(options: argparse.Namespace) -> Iterator[list[Contender]]:
    """The selected contenders; if one of them needs a schema registry, it runs while the block does."""
    exactly_once = {"sink": {"delivery": "exactly_once"}}
    found = [
        recvlogical(),
        relay("compiled"),
        relay("interpreted"),
        relay("compiled", "exactly once", exactly_once),
    ]
    if "debezium" in options.with_:
        found += debezium()
    with ExitStack() as stack:
        if "avro" in options.with_:
            registry = stack.enter_context(SchemaRegistry())
            avro = {"records": {"format": "avro", "schema_registry": {"url": registry.url}}}
            found.append(relay("compiled", "avro", avro))
        yield [contender for contender in found if any(word in contender.name for word in options.only)]


def _warm_up(stage: Stage, contenders: Sequence[Contender]) -> None:
    """Warm up: the broker's first records cost it several times as much as later ones."""
    warming = [contender for contender in contenders if contender.delivers and not contender.peer][:1]
    with loaded(stage, named("insert").scaled(0.25)) as load:
        _rounds(stage, load, warming, 2)


def _rounds(stage: Stage, load: Load, contenders: Sequence[Contender], rounds: int) -> list[list[Run]]:
    """Each round runs every contender once, starting with a different one."""
    with ExitStack() as stack:
        topics = {
            contender.name: stack.enter_context(_topics(stage, load.workload, contender))
            for contender in contenders
            if contender.delivers
        }
        done: list[list[Run]] = []
        for first in range(rounds):
            turn = first % max(len(contenders), 1)
            order = [*contenders[turn:], *contenders[:turn]]
            done.append([drain(stage, load, contender, topics.get(contender.name)) for contender in order])
        return done


def _topics(stage: Stage, workload: Workload, contender: Contender) -> Topics:
    return Topics(stage.bootstrap, contender.prefix, workload.tables)


def _options() -> argparse.Namespace:
    everything = ",".join(workload.name for workload in WORKLOADS)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Drains pre-written WAL by pg_recvlogical, pgrelay and its peers, one after the other.",
        epilog="workloads: " + "; ".join(f"{one.name}: {one.what}" for one in WORKLOADS),
    )
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="how often each contender runs (%(default)s)")
    add("--scale", type=float, default=1.0, help="rows of each workload, over what is usual (%(default)s)")
    add("--workloads", default=everything, metavar="NAMES", help="(%(default)s)")
    add("--only", nargs="+", default=[""], metavar="WORD", help="contenders with one of these in their names")
    add("--with", nargs="+", dest="with_", default=[], metavar="NAME", help="debezium, avro: they need jars")
    add("--peers", default="insert", metavar="NAMES", help="the workloads that peers run (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
