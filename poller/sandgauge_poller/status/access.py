"""Who may see the page: whoever shows the token, as a bearer token or as the password that a browser asks for."""

import base64
import hmac


def may_see(authorization: str, token: str) -> bool:
    """Return whether an `Authorization` header shows the token; an empty token asks for nothing."""
    if not token:
        return True
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "bearer":
        shown = credentials.strip().encode("utf-8", "surrogateescape")
    elif scheme.lower() == "basic":
        shown = _password(credentials.strip())
    else:
        return False
    return hmac.compare_digest(shown, token.encode())


def _password(credentials: str) -> bytes:
    """Return the password in Basic credentials, whatever the user's name; empty where they are none."""
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except ValueError:
        return b""
