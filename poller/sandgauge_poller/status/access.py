"""Who may see the page: whoever shows the token, also as the password that a browser asks for."""

import base64

from aiohttp import hdrs, web

from sandgauge_poller.ingest.bearer_token import BearerToken


class PageToken(BearerToken):
    """A bearer token that is also taken as the password of HTTP Basic, whatever the user's name."""

    def is_shown_by(self, request: web.Request) -> bool:
        """Whether the request carries it in either form."""
        return super().is_shown_by(request) or self.is_it(_password(request.headers.get(hdrs.AUTHORIZATION, "")))


def _password(authorization: str) -> bytes:
    """Return the password in Basic credentials, empty where they are none."""
    scheme, _, credentials = authorization.partition(" ")
    try:
        decoded = base64.b64decode(credentials.strip(), validate=True) if scheme.lower() == "basic" else b""
    except ValueError:
        return b""
    return decoded.partition(b":")[2]
