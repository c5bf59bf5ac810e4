"""Topics that a query used to read, and is no longer to read."""

from collections.abc import Iterable
from typing import Final

from pgrelay.errors import SetupError
from pgrelay.spark.kafka import allows_data_loss
from pgrelay.spark.mirrors.query import QuerySource

# The cure for a loss that the user knows of and accepts.
ALLOW_LOSS_ONCE: Final = (
    "pass failOnDataLoss: 'false' in options until a batch has ended, but no longer, since it also hides "
    "what retention takes from other topics"
)


def refuse_removed_topics(source: QuerySource, topics: Iterable[str]) -> None:
    """Raise SetupError if the checkpoint has topics that are not among these, unless `options` allow it.

    Spark would end the query with an error about lost data, and recommend a setting that hides all losses.
    """
    checkpoint = source.checkpoint
    planned = checkpoint.last_planned_batch()
    if planned is None or allows_data_loss(source.options):
        return
    removed = sorted(checkpoint.end_offsets(planned).keys() - set(topics))
    if removed:
        raise SetupError(
            f"{', '.join(removed)}: left out, but the checkpoint {checkpoint.location} has offsets of it: "
            "name it again (the transaction topic: whole_transactions); or, to leave its target as it is, "
            f"{ALLOW_LOSS_ONCE}"
        )
