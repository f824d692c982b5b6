"""POSTs to the Collector: one connection kept alive, nothing taken from the environment, bounded answers."""

import gzip
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import requests
import urllib3

from sandgauge_poller.config import Export
from sandgauge_poller.export.answer import PROTOBUF, Answer, Outcome, Verdict, classify
from sandgauge_poller.export.bounded_connection import BoundedAdapter
from sandgauge_schemas.names import SANDGAUGE_POLLER_SERVICE_NAME, Signal
from sandgauge_schemas.version import __version__

_MAX_ANSWER_BYTES = 64 * 1024
_GZIP_LEVEL = 1
"""A third of the time of the default for a tenth more bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """Where the Collector is and how it is spoken to; `endpoint` is the URL without `/v1/…`."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    insecure_skip_verify: bool = False
    compress: bool = True


def bare_session(ca_file: Path | None, *, insecure_skip_verify: bool) -> requests.Session:
    """Return a session that takes no proxy, .netrc or CA bundle from the environment."""
    session = requests.Session()
    session.trust_env = False
    session.verify = str(ca_file) if ca_file else True
    if insecure_skip_verify:
        session.verify = False
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # it was asked for
    session.headers["User-Agent"] = f"{SANDGAUGE_POLLER_SERVICE_NAME}/{__version__}"
    return session


class NoAnswerError(Exception):
    """No HTTP answer came: no connection, a broken one, or a timeout. The message holds nothing that was sent."""


class CollectorClient:
    """An OTLP/HTTP client for one thread."""

    def __init__(self, settings: CollectorSettings) -> None:
        self._base = f"{settings.endpoint}/v1"
        self._compress = settings.compress
        self._session = bare_session(settings.ca_file, insecure_skip_verify=settings.insecure_skip_verify)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, BoundedAdapter())
        self._session.headers.update(settings.headers)
        self._session.headers.update({"Content-Type": PROTOBUF, "Accept-Encoding": "identity"})
        if self._compress:
            self._session.headers["Content-Encoding"] = "gzip"

    def post(self, signal: Signal, message: bytes, timeout_s: float) -> Answer:
        """Send one serialized request; `timeout_s` bounds connecting, the head of the answer and its body, each.

        Raises:
            NoAnswerError: there was no answer.

        """
        body = gzip.compress(message, _GZIP_LEVEL, mtime=0) if self._compress else message
        url = f"{self._base}/{signal.value}"
        try:
            with self._session.post(url, data=body, timeout=timeout_s, allow_redirects=False, stream=True) as response:
                content = _read(response.raw, timeout_s)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            reason = reason_of(error)
            _let_go(error)
            raise NoAnswerError(reason) from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(status=response.status_code, headers=headers, body=content)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def connect(export: Export) -> CollectorClient:
    """Return a client as the configuration wants it; each thread that speaks to the Collector needs one of its own."""
    return CollectorClient(
        CollectorSettings(
            endpoint=export.endpoint,
            headers={name: value.get_secret_value() for name, value in export.headers.items()},
            ca_file=export.tls.ca_file,
            insecure_skip_verify=export.tls.insecure_skip_verify,
            compress=export.compression == "gzip",
        )
    )


Post = Callable[[Signal, bytes, float], Answer]
"""Sends one serialized request within about the seconds given; raises NoAnswerError."""


def send(post: Post, signal: Signal, message: bytes, *, timeout_s: float, now_s: float) -> Outcome:
    """Send one serialized request once and return what became of it; no answer means that it is to be sent again."""
    try:
        answer = post(signal, message, timeout_s)
    except NoAnswerError as error:
        return Outcome(verdict=Verdict.RETRY, detail=str(error))
    return classify(signal, answer, now_s=now_s)


def _read(raw: urllib3.HTTPResponse, timeout_s: float) -> bytes:
    """Return the body up to the bound; reading to its end is what notices that it was cut off."""
    deadline = time.monotonic() + timeout_s
    content = b""
    while len(content) < _MAX_ANSWER_BYTES and (more := raw.read1(_MAX_ANSWER_BYTES - len(content))):
        content += more
        if time.monotonic() > deadline:
            raise TimeoutError("the answer did not end")
    return content


def _let_go(error: BaseException | None) -> None:
    """Clear the calls that failed: the library's hold the error, which holds them, and with them all that was sent."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def reason_of(error: BaseException) -> str:
    """Return why there was no answer, in words that hold neither URL nor header."""
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError | TimeoutError):
        return "timeout"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
