"""The token that callers of the ingest port must show."""

import hmac

from aiohttp import hdrs, web


class BearerToken:
    """A token to compare with; an empty one asks for none."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def is_shown_by(self, request: web.Request) -> bool:
        """Whether the request carries it; the comparison takes the same time for every wrong one."""
        scheme, _, credentials = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        given = credentials.strip().encode("utf-8", "surrogateescape")
        return not self._token or (scheme.lower() == "bearer" and hmac.compare_digest(given, self._token))
