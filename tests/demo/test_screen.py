import io
import os

import pytest

from pgrelay.demo.screen import Line, Screen, clip

LINE: Line = [("dim", "12:00 "), ("red", "gone")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_without_a_terminal_lines_are_plain_and_there_is_no_status_line() -> None:
    stream = io.StringIO()
    with Screen(stream) as screen:
        screen.set_status(LINE)
        screen.show([LINE, [("", "x" * 30)]])
        screen.say("y" * 30, "bold")
    assert stream.getvalue() == f"12:00 gone\n{'x' * 19}…\n{'y' * 30}\n"


def test_on_a_terminal_the_status_line_is_redrawn_below_the_others() -> None:
    stream = Terminal()
    with Screen(stream) as screen:
        screen.set_status([("", "3 records")])
        screen.show([LINE])
    assert stream.getvalue() == (
        "\x1b[?25l"
        "\r\x1b[K3 records"
        "\r\x1b[K\x1b[2m12:00 \x1b[0m\x1b[31mgone\x1b[0m\n3 records"
        "\r\x1b[K\x1b[?25h"
    )


def test_no_color_keeps_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with Screen(stream) as screen:
        screen.set_status([("green", "3 records")])
        screen.show([LINE])
    assert "\r\x1b[K12:00 gone\n3 records" in stream.getvalue()
    assert "\x1b[3" not in stream.getvalue()


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Screen(stream) as screen:
        screen.set_status(LINE)
        screen.show([LINE])
    assert stream.getvalue() == "12:00 gone\n"


def test_the_cursor_comes_back_after_an_error() -> None:
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Screen(stream):
        raise ZeroDivisionError
    assert stream.getvalue().endswith("\x1b[?25h")


def test_pieces_of_the_status_line_that_do_not_fit_are_dropped() -> None:
    stream = Terminal()
    with Screen(stream) as screen:
        screen.set_status([("", "3 records"), ("", "  12 ms"), ("", "  1,000/s")])
    assert "3 records  12 ms\r" in stream.getvalue()


@pytest.mark.parametrize(
    ("width", "expected"), [(10, "12:00 gone"), (9, "12:00 go…"), (6, "12:00…"), (1, "…")]
)
def test_clip_cuts_styled_text_to_a_width(width: int, expected: str) -> None:
    assert "".join(text for _, text in clip(LINE, width)) == expected


def test_lines_are_cut_to_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback: os.terminal_size((8, 24)))
    stream = io.StringIO()
    Screen(stream).show([LINE])
    assert stream.getvalue() == "12:00 g…\n"
