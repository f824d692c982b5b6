"""The scope of a sandbox: which control plane made it, as an identity and never as an address to call."""

import re
from urllib.parse import urlsplit

_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f]")


def control_plane_scope(url: str) -> str | None:
    """Return `url` without user information, query and fragment, else as it is; None when it is no URL with a host.

    A daemon behind a socket of its machine has a path instead of a host: `unix:///var/run/docker.sock`. Without a
    scheme there is no telling user information from a host, so such a text is no scope.
    """
    if _BLANK_OR_CONTROL.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme == "unix":
        return f"unix://{parts.path}" if not parts.netloc and parts.path.startswith("/") else None
    if not parts.scheme or not host:
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
