"""A real headless browser: Debian's Chromium, driven by playwright."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright

from tests.debian import debian_program

expect.set_options(timeout=30_000)  # milliseconds; its own five are few on a busy machine


@contextmanager
def chromium() -> Iterator[Browser]:
    program = debian_program("chromium", "chromium", "usr/lib/chromium/chromium")
    with sync_playwright() as playwright:
        # The sandbox does not start under root, nor in most containers; only our own pages are opened.
        browser = playwright.chromium.launch(
            executable_path=program.path, env=dict(program.environment), args=["--no-sandbox"]
        )
        try:
            yield browser
        finally:
            browser.close()
