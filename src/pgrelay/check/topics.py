"""The topics that a run writes to: one for each table, and one for logical messages."""

from dataclasses import dataclass
from typing import Final

from pgrelay.check.findings import Finding, counted, error, refused
from pgrelay.check.table_queries import Table
from pgrelay.config import Records
from pgrelay.encode.topics import Topics
from pgrelay.errors import SetupError

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """`keyless`: its records have no key, which a compacted topic refuses.

    `certain`: rows go there. To the topic of logical messages nothing may ever go.
    """

    name: str
    keyless: bool
    certain: bool = True


def wanted_topics(
    tables: tuple[Table, ...], records: Records, messages: bool
) -> tuple[list[WantedTopic], list[Finding]]:
    """The topics, and what is wrong with their names."""
    names = Topics(records.prefix, records.topic)
    wanted: dict[str, WantedTopic] = {}
    found: list[SetupError] = []
    for table in tables:
        try:
            topic = names.of_table(table.schema, table.name)
        except SetupError as refusal:
            found.append(refusal)
        else:
            wanted[topic] = WantedTopic(topic, not (records.key and table.key))
    if messages:
        wanted[names.message] = WantedTopic(names.message, not records.key, certain=False)
    return list(wanted.values()), collisions(found)


def collisions(refusals: list[SetupError]) -> list[Finding]:
    """The first few, and how many more."""
    why = "a run stops at the first change of the second"
    found = [refused(refusal, why) for refusal in refusals[:_SHOWN]]
    if len(refusals) > _SHOWN:
        more = counted(len(refusals) - _SHOWN, "more table")
        found.append(error(f"{more} would share a topic with another", why, "change records.topic"))
    return found
