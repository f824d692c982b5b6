"""The token that callers must show."""

import hmac

from aiohttp import hdrs, web


class BearerToken:
    """A token to compare with; an empty one asks for none."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def is_shown_by(self, request: web.Request) -> bool:
        """Whether the request carries it."""
        scheme, _, credentials = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        given = credentials.strip().encode("utf-8", "surrogateescape")
        return not self._token or (scheme.lower() == "bearer" and self.is_it(given))

    def is_it(self, given: bytes) -> bool:
        """Compare, in the same time for everything of one length."""
        return hmac.compare_digest(given, self._token)
