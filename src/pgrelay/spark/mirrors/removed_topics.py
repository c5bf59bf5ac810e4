"""Topics that a query was reading, and does not read any more."""

from collections.abc import Iterable, Mapping
from typing import Final

from pgrelay.errors import SetupError
from pgrelay.spark.mirrors.checkpoint import Checkpoint

# How a loss that is known of is allowed.
FOR_ONCE: Final = (
    "pass failOnDataLoss: 'false' in options until a batch has ended, and not for longer, since it hides "
    "what retention took from other topics"
)


def refuse_left_out(checkpoint: Checkpoint, topics: Iterable[str], options: Mapping[str, str] | None) -> None:
    """Raise SetupError where the checkpoint has topics that are not among these, unless `options` allow it.

    Spark would end the query with an error about lost data, and advise a setting that hides all losses.
    """
    planned = checkpoint.last_planned()
    if planned is None or allows_loss(options):
        return
    left = sorted(checkpoint.ends(planned).keys() - set(topics))
    if left:
        raise SetupError(
            f"{', '.join(left)}: left out, and the checkpoint {checkpoint.location} has offsets of it: "
            "name it again (the transaction topic by whole_transactions); or, to leave its target as it is, "
            f"{FOR_ONCE}"
        )


def allows_loss(options: Mapping[str, str] | None) -> bool:
    """Whether these options of Spark's Kafka source have it pass over what is not there any more."""
    given = {name.lower(): str(value).lower() for name, value in (options or {}).items()}
    return given.get("failondataloss") == "false"
