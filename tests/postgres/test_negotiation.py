"""The options sent to each server version for each setting, and the settings that are refused."""

import pytest

from pgrelay.config import SourceConfig
from pgrelay.errors import SetupError, Verdict, exit_code, verdict
from pgrelay.postgres.negotiation import stream_options
from pgrelay.wire.replication import StreamOptions

NEWEST = 180004


def options(server_version: int, **choices: object) -> StreamOptions:
    config = SourceConfig.model_validate({"dsn": "", "publications": ["p", 'Q"'], **choices})
    return stream_options(config, server_version)


def refusal(server_version: int, **choices: object) -> str:
    """The line that the operator reads."""
    with pytest.raises(SetupError) as caught:
        options(server_version, **choices)
    assert verdict(caught.value) is Verdict.STOP
    assert exit_code(caught.value) == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Defaults


@pytest.mark.parametrize(
    ("server_version", "protocol", "streaming", "messages"),
    [
        (100000, 1, "off", False),
        (110022, 1, "off", False),
        (120019, 1, "off", False),
        (130015, 1, "off", False),
        (140000, 2, "on", True),
        (140012, 2, "on", True),
        (150000, 3, "on", True),
        (150018, 3, "on", True),
        (160000, 4, "parallel", True),
        (170005, 4, "parallel", True),
        (180004, 4, "parallel", True),
        (190000, 4, "parallel", True),
    ],
)
def test_auto_takes_the_best_that_the_server_supports(
    server_version: int, protocol: int, streaming: str, messages: bool
) -> None:
    assert options(server_version) == StreamOptions(
        proto_version=protocol,
        publications=("p", 'Q"'),
        binary=False,
        messages=messages,
        streaming=streaming,
        two_phase=False,
        origin=None,
    )


def test_a_server_without_pgoutput_is_refused() -> None:
    assert refusal(90624) == "Postgres 9 has no pgoutput; pgrelay needs 10 or later"


# --- Protocol version


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_protocol_version_may_be_chosen(version: int) -> None:
    assert options(NEWEST, protocol_version=version).proto_version == version


@pytest.mark.parametrize(
    ("server_version", "best"), [(100000, 1), (130015, 1), (140012, 2), (150018, 3)], ids=str
)
def test_a_protocol_version_that_the_server_lacks_is_refused(server_version: int, best: int) -> None:
    assert options(server_version, protocol_version=best).proto_version == best
    assert refusal(server_version, protocol_version=best + 1) == (
        f"source.protocol_version: Postgres {server_version // 10000} speaks up to {best}, not {best + 1}; "
        "use auto"
    )


# --- Streaming


@pytest.mark.parametrize(("protocol", "streaming"), [(1, "off"), (2, "on"), (3, "on"), (4, "parallel")])
def test_streaming_depends_on_the_protocol_version(protocol: int, streaming: str) -> None:
    assert options(NEWEST, protocol_version=protocol).streaming == streaming


@pytest.mark.parametrize("streaming", ["off", "on", "parallel"])
def test_streaming_may_be_chosen(streaming: str) -> None:
    assert options(NEWEST, streaming=streaming).streaming == streaming


@pytest.mark.parametrize(("streaming", "expected"), [("auto", "off"), ("on", "on"), ("parallel", "parallel")])
def test_auto_streams_nothing_where_the_server_failed_to(streaming: str, expected: str) -> None:
    config = SourceConfig.model_validate({"dsn": "", "streaming": streaming})
    assert stream_options(config, NEWEST, allow_streaming=False).streaming == expected


@pytest.mark.parametrize("server_version", [100000, 130015, 140012, 150018, NEWEST])
def test_streaming_may_be_off_everywhere(server_version: int) -> None:
    assert options(server_version, streaming="off").streaming == "off"


@pytest.mark.parametrize(
    ("server_version", "streaming", "needed", "spoken"),
    [
        (130015, "on", 2, 1),
        (130015, "parallel", 4, 1),
        (140012, "parallel", 4, 2),
        (150018, "parallel", 4, 3),
    ],
)
def test_streaming_that_the_server_lacks_is_refused(
    server_version: int, streaming: str, needed: int, spoken: int
) -> None:
    assert refusal(server_version, streaming=streaming) == (
        f"source.streaming: {streaming} needs protocol version {needed}; Postgres {server_version // 10000} "
        f"with source.protocol_version: auto has {spoken}; use auto"
    )


# --- Options that servers have from some version on


@pytest.mark.parametrize(
    ("option", "choice", "since"),
    [
        ("binary", True, 140000),
        ("messages", True, 140000),
        ("two_phase", True, 150000),
        ("origin", "none", 160000),
    ],
)
def test_an_option_is_accepted_from_its_first_server_version_on(
    option: str, choice: object, since: int
) -> None:
    asked = "none" if option == "origin" else True
    for server_version in (since, NEWEST):
        assert getattr(options(server_version, **{option: choice}), option) == asked
    for server_version in (100000, since - 10000, since - 1):
        assert refusal(server_version, **{option: choice}) == (
            f"source.{option}: Postgres {server_version // 10000} does not have it, {since // 10000} and "
            "later do; leave it out"
        )


@pytest.mark.parametrize("server_version", [100000, 130015, 140012, 150018, NEWEST])
def test_options_that_are_off_are_never_refused(server_version: int) -> None:
    chosen = options(
        server_version, binary=False, messages=False, two_phase=False, origin="any", streaming="off"
    )
    assert [name for name, _ in chosen.pairs()] == ["proto_version", "publication_names"]


def test_origin_any_is_not_sent() -> None:
    assert options(NEWEST, origin="any").origin is None
