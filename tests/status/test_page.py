"""The status page in a real browser."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect

from pgrelay.assembly.spool import Spool
from pgrelay.errors import RecordError, SourceUnavailable
from pgrelay.status.http import StatusServer
from tests.ports import held_port
from tests.status.browser import chromium
from tests.status.relays import PASSWORD, RelayStub, busy

Scheme = Literal["light", "dark"]

PHONE: dict[str, Any] = {
    "viewport": {"width": 375, "height": 720},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}

# Readable: the contrast that WCAG 2.2 demands (1.4.3), and a text size that needs no zoom on phones.
LEAST_CONTRAST = 4.5
LEAST_PHONE_PX = 11


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def relay(tmp_path: Path) -> RelayStub:
    """A relay with something to show everywhere."""
    relay = RelayStub()
    relay.health.troubles.record_error(SourceUnavailable("Postgres can't be reached: refused"))
    busy(relay, Spool(tmp_path))
    relay.health.troubles.record_error(
        RecordError("a record can't be delivered: too large; raise max.message.bytes")
    )
    return relay


@pytest.fixture
def server(relay: RelayStub) -> Iterator[StatusServer]:
    with relay.served() as server:
        yield server


class Open(Protocol):
    def __call__(self, url: str | None = None, scheme: Scheme = "light", **options: Any) -> Page: ...


@pytest.fixture
def show(browser: Browser, server: StatusServer) -> Iterator[Open]:
    """Open the page; fail the test if it reports an error or queries anything but the relay."""
    with ExitStack() as stack:
        complaints: list[str] = []
        asked: set[str] = set()

        def open_page(url: str | None = None, scheme: Scheme = "light", **options: Any) -> Page:
            context = browser.new_context(color_scheme=scheme, **options)
            stack.callback(context.close)
            page = context.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            page.on("request", lambda request: asked.add(re.sub(r"^(\w+://[^/]*).*", r"\1", request.url)))
            page.goto(url or f"http://127.0.0.1:{server.port}/")
            page.wait_for_selector("body:not([data-state=loading])")
            return page

        yield open_page
        assert asked == {f"http://127.0.0.1:{server.port}"}
        assert complaints == []


def shown(page: Page, name: str) -> str:
    """The visible text of the named place."""
    [text] = page.locator(f"[data-bind='{name}']:visible").all_inner_texts()
    return text


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everything_that_the_relay_reports_is_shown(
    relay: RelayStub, show: Open, options: dict[str, Any]
) -> None:
    page = show(**options)
    now = relay.status.snapshot()
    expect(page.locator("body")).to_have_attribute("data-state", "streaming")
    assert page.title() == "shop: streaming"
    for stage in now.stages:
        [lsn] = page.locator(f"svg:visible [data-bind='{stage.name}.lsn']").all_text_contents()
        assert lsn == stage.lsn
    assert page.locator("svg:visible [data-bind='received.behind']").all_text_contents() == ["1000 B"]
    assert page.locator("svg:visible [data-bind='acknowledged.behind']").all_text_contents() == ["1.95 KiB"]
    rows = [row.all_inner_texts() for row in map(cells, page.locator("#tables tbody tr").all())]
    assert [row[0] for row in rows] == [table.name for table in now.tables]
    assert [row[2] for row in rows] == [f"{table.records:,}" for table in now.tables]
    assert [cells(row).all_inner_texts() for row in page.locator("#open tbody tr").all()] == [
        ["90211", "0 B", "8.58 MiB"],
        ["90377", "391 KiB", "0 B"],
    ]
    assert page.locator("#troubles li p").all_inner_texts() == [
        "a record can't be delivered: too large",
        "Cure raise max.message.bytes",
        "Postgres can't be reached: refused",
        f"Cure {now.troubles[1].cure}",
    ]
    assert shown(page, "p50") == "2.90ms"
    assert (shown(page, "retained"), shown(page, "budget")) == ("1.30GiB", "17.0 GiB of budget left")


def cells(row: Any) -> Any:
    return row.locator("td")


def test_the_configuration_is_shown_without_secrets(show: Open) -> None:
    page = show(**DESKTOP)
    lines = page.locator("#config dl").all_inner_texts()
    assert "dsn\nuser=app password=*** dbname=shop host=db.internal" in lines[0]
    assert "kafka.sasl.password\n***" in lines[1]
    assert PASSWORD not in page.content()


def test_the_page_follows_the_relay(relay: RelayStub, show: Open) -> None:
    page = show(**DESKTOP)
    relay.metrics.add_records("public.returns", "c", 1234)
    relay.health.set_waiting("Kafka does not acknowledge: refused")
    relay.pass_second()
    expect(page.locator("#tables")).to_contain_text("public.returns")
    expect(page.locator("#notice")).to_have_text("Waiting: Kafka does not acknowledge: refused")
    expect(page.locator("body")).to_have_attribute("data-state", "waiting")
    relay.health.set_streaming()
    expect(page.locator("#notice")).to_be_hidden()


def test_foreign_text_is_never_markup(relay: RelayStub, show: Open) -> None:
    relay.metrics.add_records('public.<img src="x" onerror="alert(1)">', "c", 9_999_999)
    relay.health.troubles.record("<script>alert(1)</script>", "<b>none</b>")
    page = show(**DESKTOP)
    assert page.locator("#tables img").count() == 0
    assert "<script>alert(1)</script>" in page.locator("#troubles").inner_text()


def test_the_page_shows_when_the_relay_goes_away_and_comes_back(relay: RelayStub, browser: Browser) -> None:
    with held_port() as port, closing(browser.new_context(**DESKTOP)) as context:
        page = context.new_page()
        with relay.served(port):
            page.goto(f"http://127.0.0.1:{port}/")
            expect(page.locator("body")).to_have_attribute("data-state", "streaming")
        expect(page.locator("body")).to_have_attribute("data-state", "lost")
        expect(page.locator("#notice")).to_contain_text("pgrelay does not answer")
        with relay.served(port):
            expect(page.locator("body")).to_have_attribute("data-state", "streaming")


def test_a_relay_that_has_just_started_is_shown(browser: Browser) -> None:
    context = browser.new_context(**DESKTOP)
    try:
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        with RelayStub().served() as server:
            page.goto(f"http://127.0.0.1:{server.port}/")
            expect(page.locator("#notice")).to_have_text("Waiting: starting")
            expect(page.locator("#troubles")).to_have_text("None since the start.")
            expect(page.locator("svg.wide [data-bind='server.lsn']")).to_have_text("not known yet")
            expect(page.locator("[data-bind='lag']")).to_have_text("not known")
            expect(page.locator("[data-bind='lagWorst']")).to_have_text("at worst not known")
            expect(page.locator("[data-bind='budget']")).to_have_text("budget not known")
        assert complaints == []
    finally:
        context.close()


def test_the_chart_shows_the_value_under_the_pointer(relay: RelayStub, show: Open) -> None:
    page = show(**DESKTOP)
    chart = page.locator("[data-chart=lag_s]")
    box = chart.locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 20)
    last = relay.status.snapshot().chart.lag_s[-1]
    assert last is not None
    expect(chart.locator(".value")).to_have_text(
        f"{'0 s' if last == 0 else f'{last * 1000:.2f} ms'}, just now"
    )
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20)
    expect(chart.locator(".value")).to_contain_text("8.")
    page.mouse.move(0, 0)
    expect(chart.locator(".value")).to_have_text("")


def test_the_chart_has_a_gap_for_unknown_values(relay: RelayStub, show: Open) -> None:
    page = show(**DESKTOP)
    curve = page.locator("[data-chart=lag_s] .curve")
    assert (curve.get_attribute("d") or "").count("M") == 1
    relay.health.set_waiting("Postgres is away")
    relay.metrics.set_oldest_commit(None)
    relay.pass_second()
    relay.health.set_streaming()
    relay.pass_second()
    relay.pass_second()
    expect(curve).to_have_attribute("d", re.compile(r"^M[^M]+M[^M]+$"))


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_screen(show: Open, options: dict[str, Any]) -> None:
    page = show(**options)
    assert page.evaluate("document.documentElement.scrollWidth") == options["viewport"]["width"]


@pytest.mark.parametrize(
    "options", [PHONE, {"viewport": {"width": 861, "height": 900}}, DESKTOP], ids=["phone", "half", "desktop"]
)
def test_large_numbers_have_room(relay: RelayStub, show: Open, options: dict[str, Any]) -> None:
    relay.metrics.add_records("public.years", "c", 12_345_678_901)
    relay.metrics.inflight_records = 499_999
    page = show(**options)
    expect(page.get_by_text("499,999")).to_be_visible()
    expect(page.get_by_text("12,345,678,901")).to_be_visible()
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
    assert page.locator(".figure, td:not(:first-child)").evaluate_all(cut) == []


def test_a_phone_has_its_own_picture_with_readable_text(show: Open) -> None:
    page = show(**PHONE)
    expect(page.locator("svg.tall")).to_be_visible()
    expect(page.locator("svg.wide")).to_be_hidden()
    assert min(page.evaluate(TEXT_SIZES)) >= LEAST_PHONE_PX


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("reason", [None, "Kafka does not acknowledge"], ids=["streaming", "waiting"])
def test_every_text_has_enough_contrast(
    relay: RelayStub, show: Open, scheme: Scheme, reason: str | None
) -> None:
    if reason is not None:
        relay.health.set_waiting(reason)
    contrasts = show(scheme=scheme, **DESKTOP).evaluate(CONTRASTS)
    assert len(contrasts) > 50
    assert [(text, ratio) for text, ratio in contrasts if ratio < LEAST_CONTRAST] == []


def test_light_and_dark_differ(show: Open) -> None:
    def ground(page: Page) -> Any:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert ground(show(scheme="light")) != ground(show(scheme="dark"))


# The size in pixels at which every visible text is drawn, also in a scaled picture.
TEXT_SIZES = """() => {
  const sizes = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const at = walk.currentNode.parentElement, svg = at.closest("svg");
    if (!walk.currentNode.data.trim() || !at.checkVisibility() || at.closest("script, style")) continue;
    const scale = svg ? svg.getScreenCTM().a : 1;
    sizes.push(parseFloat(getComputedStyle(at).fontSize) * scale);
  }
  return sizes;
}"""

# The contrast of every visible text with its background: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const light = (color) => {
    const [r, g, b] = color.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (at) => {
    if (!at) return [255, 255, 255];
    const below = ground(at.parentElement);
    const box = at.tagName === "g" ? at.querySelector(":scope > rect") : null;
    return over(rgba(box ? getComputedStyle(box).fill : getComputedStyle(at).backgroundColor), below);
  };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const at = walk.currentNode.parentElement, text = walk.currentNode.data.trim();
    if (!text || !at.checkVisibility() || at.closest("script, style")) continue;
    const style = getComputedStyle(at), below = ground(at);
    const ink = over(rgba(at.closest("svg") ? style.fill : style.color), below);
    const [high, low] = [light(ink), light(below)].sort((a, b) => b - a);
    found.push([text, Math.round((high + 0.05) / (low + 0.05) * 100) / 100]);
  }
  return found;
}"""
