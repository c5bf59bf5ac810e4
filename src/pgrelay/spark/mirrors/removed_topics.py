"""Topics that a query was reading, and no longer reads."""

from collections.abc import Iterable
from typing import Final

from pgrelay.errors import SetupError
from pgrelay.spark.kafka import allows_loss
from pgrelay.spark.mirrors.query import QuerySource

# How to allow a known loss.
FOR_ONCE: Final = (
    "pass failOnDataLoss: 'false' in options until a batch has ended, but no longer, since it also hides "
    "what retention takes from other topics"
)


def refuse_left_out(source: QuerySource, topics: Iterable[str]) -> None:
    """Raise SetupError if the checkpoint has topics that are not among these, unless `options` allow it.

    Spark would end the query with an error about lost data, and advise a setting that hides all losses.
    """
    checkpoint = source.checkpoint
    planned = checkpoint.last_planned()
    if planned is None or allows_loss(source.options):
        return
    left = sorted(checkpoint.ends(planned).keys() - set(topics))
    if left:
        raise SetupError(
            f"{', '.join(left)}: left out, but the checkpoint {checkpoint.location} has offsets of it: "
            "name it again (the transaction topic: whole_transactions); or, to leave its target as it is, "
            f"{FOR_ONCE}"
        )
