"""What the poller shows an API server, and how it checks who that is."""

import logging
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from yarl import URL

from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

_READ_AGAIN_S = 60.0
"""A service account's token lives for about an hour, and its file holds the next one well before that."""

_MAX_FILE_BYTES = 1024**2


class CredentialsError(OSError):
    """Why there are no usable credentials: the place, which is a file and a key of it, and the cure; never a value.

    Without them a poller does not start, as without a file that it needs.
    """

    def __init__(self, place: str, reason: str, cure: str) -> None:
        super().__init__(f"{place}: {reason}; {cure}")


class BearerToken:
    """A token, fixed or in a file that is read again each minute; an empty one is not shown to anyone.

    A file that cannot be read any more leaves the token that was read last in use.
    """

    def __init__(self, text: str = "", file: Path | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._text = text
        self._file = file
        self._clock = clock
        self._read_at = float("-inf")

    def headers(self) -> dict[str, str]:
        """Return the header of a request."""
        if self._file is not None and self._clock.monotonic() - self._read_at >= _READ_AGAIN_S:
            self._read(self._file)
        return {"Authorization": f"Bearer {self._text}"} if self._text else {}

    def refused(self) -> None:
        """Have the file read before the next request, since its token was refused."""
        self._read_at = float("-inf")

    def _read(self, file: Path) -> None:
        self._read_at = self._clock.monotonic()
        try:
            self._text = read_token(file, "token")
        except CredentialsError as error:
            logger.warning("%s; the token that was read last stays in use", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """One cluster as one user; `namespace` is the user's own, and `server_hostname` what the certificate must name."""

    server: URL
    namespace: str = "default"
    token: BearerToken = field(default_factory=BearerToken, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    server_hostname: str | None = None


def read_file(file: Path, place: str, cure: str) -> bytes:
    """Return what a file of credentials holds; raises CredentialsError with the place that led to it."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CredentialsError(place, f"{file} cannot be read ({reason or type(error).__name__})", cure) from None
    if len(content) > _MAX_FILE_BYTES:
        raise CredentialsError(place, f"{file} is larger than 1 MiB", cure)
    return content


def read_token(file: Path, place: str) -> str:
    """Return the token in a file; raises CredentialsError where it holds none that a header can carry."""
    cure = "let it hold the token alone, and let the poller's user read it"
    token = read_file(file, place, cure).decode(errors="replace").strip()
    if not is_token(token):
        raise CredentialsError(place, f"{file} holds no token", cure)
    return token


def is_token(text: str) -> bool:
    """Tell whether a header can carry it as a token."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def make_tls(
    authority: bytes | None, certificate: bytes | None = None, key: bytes | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """Return how TLS is spoken: authority (else the system's), and a client's certificate with its key, as PEM.

    Raises:
        ssl.SSLError: One of them is not what it should be.
        ValueError: The authority is not even text.

    """
    context = ssl.create_default_context(cadata=None if authority is None else authority.decode("ascii"))
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        _load_pair(context, certificate + b"\n" + key)
    return context


def _load_pair(context: ssl.SSLContext, pair: bytes) -> None:
    """Load certificate and key from a file in memory: the library takes paths alone, and no key belongs on a disk."""
    descriptor = os.memfd_create("client-certificate")
    with open(descriptor, "wb") as memory:  # noqa: PTH123  # a descriptor, not a path
        memory.write(pair)
        memory.flush()
        # Without a password the library would ask the terminal for that of an encrypted key.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")
