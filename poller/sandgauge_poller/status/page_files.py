"""The page: files of this package, served as they are."""

from dataclasses import dataclass
from pathlib import Path

from aiohttp import hdrs, web

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)

GUARDS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer of the status port: nothing comes from elsewhere, and nobody else shows it."""


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page, the route that it has and the type that it is served with."""

    route: str
    path: Path

    def answer(self) -> web.Response:
        """Return the file; a browser asks again each time, so that page and poller are of one version."""
        headers = {hdrs.CONTENT_TYPE: _TYPES[self.path.suffix], hdrs.CACHE_CONTROL: "no-cache"}
        return web.Response(body=self.path.read_bytes(), headers=headers)


def page_files() -> list[PageFile]:
    """Return every file of the page."""
    folder = Path(__file__).parent / "page"
    return [PageFile("/" if path.suffix == ".html" else f"/{path.name}", path) for path in sorted(folder.iterdir())]
