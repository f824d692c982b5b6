"""A real browser without a window: Debian's Chromium, steered by Playwright."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from support.real_parts import require

REFRESH_MS = 5000
"""How often the page asks anew."""

_GLANCE_MS = 500
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_MS = 60_000
"""For whatever the page is to show, on a machine that is busy with others."""


def find_chromium() -> str:
    """Return the browser's path, or skip or fail the test."""
    found = next((path for path in map(shutil.which, _NAMES) if path is not None), None)
    return require("Chromium", found, "on Debian: apt install chromium")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start the browser; tests of it are no coroutines, for it brings an event loop of its own."""
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=120_000
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, and what it did that a good page does not do."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def see(self, check: Callable[..., None], wanted: object) -> None:
        """Let the page refresh as often as it takes until a check of `expect` holds."""
        deadline = time.monotonic() + _PATIENCE_MS / 1000
        while True:
            try:
                check(wanted, timeout=_GLANCE_MS)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                self.page.clock.fast_forward(REFRESH_MS)
            else:
                return

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        self.requested.append(request.url)


@contextmanager
def opened(browser: Browser, url: str, *, has_own_clock: bool = False, **context: Any) -> Iterator[Watched]:
    """Open a page as somebody who was never there before, and wait for what it shows first.

    With a clock of its own a test need not wait for the page's timers; what it measures is then no time of anybody's.
    """
    with browser.new_context(**context) as own:
        own.set_default_timeout(_PATIENCE_MS)
        watched = Watched(own.new_page())
        if has_own_clock:
            watched.page.clock.install()
        watched.page.goto(url)
        watched.page.wait_for_selector("#connection[data-tone=good]")
        yield watched
