"""The topics that a run writes to: those of its tables, and its own."""

from dataclasses import dataclass
from typing import Final

from pgrelay.check.findings import Finding, counted, error, refused
from pgrelay.check.table_queries import Table
from pgrelay.config import Config
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.topics import Topics
from pgrelay.errors import SetupError

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """`keyless`: some of its records have no key, which a compacted topic refuses.

    `certain`: something will go there; to the topic of logical messages perhaps nothing ever does.
    `lasting`: never to be cleaned, since consumers read it from its beginning.
    """

    name: str
    keyless: bool = False
    certain: bool = True
    lasting: bool = False


def wanted_topics(
    tables: tuple[Table, ...], options: RecordOptions, config: Config
) -> tuple[list[WantedTopic], list[Finding]]:
    """The topics, and what is wrong with their names."""
    names = Topics(options.prefix, options.topic, options.routes)
    keyless: dict[str, bool] = {}
    collisions: list[SetupError] = []
    for table in tables:
        try:
            topic = names.of_table(table.schema, table.name)
        except SetupError as refusal:
            collisions.append(refusal)
        else:
            keyless[topic] = keyless.get(topic, False) or not (options.key and table.key)
    wanted = [WantedTopic(topic, without) for topic, without in keyless.items()]
    wanted.append(WantedTopic(names.schema, lasting=True))
    if options.transactions:
        wanted.append(WantedTopic(names.transaction))
    if config.source.messages:
        wanted.append(WantedTopic(names.message, keyless=not options.key, certain=False))
    return wanted, colliding(collisions)


def colliding(refusals: list[SetupError]) -> list[Finding]:
    """The first few, and how many more."""
    why = "a run stops at the first change of the second"
    found = [refused(refusal, why) for refusal in refusals[:_SHOWN]]
    if len(refusals) > _SHOWN:
        more = counted(len(refusals) - _SHOWN, "more table")
        found.append(error(f"{more} would share a topic with another", why, "change records.topic"))
    return found
