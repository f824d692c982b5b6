"""`python -m support.page_pictures FOLDER`: the pictures of page and `top` that the documentation shows."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page
from rich.console import Console

from sandgauge_poller.status.selection import Order, Selection
from sandgauge_poller.top.client import Client
from sandgauge_poller.top.screen import fitting
from support.browser import opened, running_browser
from support.shown_fleet import ShownFleet

_SANDBOXES = 300
_WIDE = {"width": 1280, "height": 800}
_NARROW = {"width": 390, "height": 800}
_TERMINAL = (150, 30)
_TERMINAL_STYLE = """
body { margin: 0; padding: 0 14px; width: max-content; background: #fff }
code { font: 13px/1.3 'DejaVu Sans Mono', monospace }
"""


def main() -> None:
    """Take them all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as state,
        ShownFleet(Path(state), _SANDBOXES) as fleet,
        running_browser() as browser,
    ):
        for scheme in ("light", "dark"):
            with opened(browser, fleet.url, viewport=_WIDE, color_scheme=scheme, device_scale_factor=1.5) as watched:
                _save(watched.page, folder / f"page-{scheme}.webp")
        with opened(browser, fleet.url, viewport=_WIDE, color_scheme="light", device_scale_factor=1.5) as watched:
            _choose(watched.page)
            _save(watched.page, folder / "page-sandbox.webp")
        with opened(browser, fleet.url, viewport=_NARROW, color_scheme="dark", device_scale_factor=1.5) as watched:
            watched.page.locator("#sandboxes-title").scroll_into_view_if_needed()
            watched.page.mouse.wheel(0, 480)
            _save(watched.page, folder / "page-narrow.webp")
        _take_top(browser, fleet.url, folder / "top.webp")


def _choose(page: Page) -> None:
    """Open a sandbox that a usage source sees too."""
    page.locator("#rows tr").filter(has_text="cores").first.locator("button").click()
    page.wait_for_selector("#sheet[open] figure")
    page.locator("#sheet").evaluate("sheet => sheet.scrollTo(0, 330)")


def _take_top(browser: Browser, url: str, target: Path) -> None:
    width, height = _TERMINAL
    console = Console(file=io.StringIO(), record=True, width=width, height=height, force_terminal=True)
    with Client(url, "") as client:
        console.print(fitting(console, client.look(Selection(order=Order.DESCENDING), height), 0.0))
    with browser.new_context(device_scale_factor=1.5) as context:
        page = context.new_page()
        page.set_content(console.export_html(inline_styles=True))
        page.add_style_tag(content=_TERMINAL_STYLE)
        _write(page.locator("body").screenshot(), target)


def _save(page: Page, target: Path) -> None:
    page.wait_for_timeout(300)
    _write(page.screenshot(), target)


def _write(picture: bytes, target: Path) -> None:
    """Write a picture in the form that takes the fewest bytes without losing any of it."""
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").save(target, lossless=True, quality=100, method=6)
    print(f"{target}: {target.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
