"""What --help says beyond a command's options."""

from collections.abc import Mapping
from typing import Final

EXAMPLE: Final = "pgrelay run --config relay.yaml"

EPILOG: Final = f"""\
example:
  {EXAMPLE}

exit codes:
  0    stopped as asked, or done
  2    the configuration or the set-up is wrong; one line says what to do
  3    the stream cannot go on without losing data: slot lost, a gap, another cluster
  4    a record can't be encoded or delivered, and the policy says stop
  1    anything else; of reset and plan also a server that is away
  130  Ctrl-C ended a command other than run, or any stop ended skip, before it was done
  143  SIGTERM ended a command other than run and skip before it was done
check ends with 3 or 2 where a run would, or where a server is away, and with 0 where it has warnings alone.

Trouble that passes (the broker is down, Postgres restarts) never ends a run.
"""

# Of a command, what to know before it is given.
MORE: Final[Mapping[str, str]] = {
    "run": "Exit codes: pgrelay --help.",
    "skip": """\
Stop the relay first. The changes of that transaction are in no topic afterwards, but for those that were
delivered before; they can't be had again.""",
    "reset": """\
Stop the relay first. What the slot still held is lost to the topics, and so is what is written until the next
run has made a new slot: copy the tables after that, and replace what is downstream. What was kept on disk of
prepared transactions is deleted.

Not after another client had the slot and relayed what it passed, as Debezium does, nor where pg_upgrade took
the slot along: for these there is --keep-slot.""",
    "spark-mirror": """\
Needs the extra spark: pip install 'pgrelay[spark]', and 'pgrelay[avro,spark]' where records are in Avro.
A stop waits for the batch under way, 20 s at most; what is cut off comes again.
Exit codes: pgrelay --help.""",
    "demo": """\
Needs the extra demo: pip install 'pgrelay[demo]', and 'pgrelay[demo,spark]' for --spark.""",
}
