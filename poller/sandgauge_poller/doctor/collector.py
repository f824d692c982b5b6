"""The Collector: an empty request of each signal, judged as a delivery would be."""

import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from sandgauge_poller.config import Export
from sandgauge_poller.doctor.caller import is_about_tls
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.export.answer import Outcome, Verdict, classify
from sandgauge_poller.export.collector_client import NoAnswerError, connect
from sandgauge_schemas.names import Signal

_EMPTY_REQUEST = b""
_OTLP_GRPC_PORT = 4317
_OTHER_PORT = "name the port of OTLP over HTTP as export.endpoint, most often 4318"
_CONNECT_TIMEOUT_S = 2.0


def examine(export: Export, now_s: Callable[[], float]) -> Iterator[Finding]:
    """Yield whether it takes traces and metrics; `now_s` gives seconds since the epoch."""
    client = connect(export)
    try:
        for signal in Signal:
            what = f"Collector ({signal.value})"
            try:
                answer = client.post(signal, _EMPTY_REQUEST, export.timeout)
            except NoAnswerError as error:
                yield failed(what, f"no answer: {error}", _cure_of_silence(export.endpoint, error))
            else:
                yield _judge(what, classify(signal, answer, now_s=now_s()), answer.status, export)
    finally:
        client.close()


def _judge(what: str, outcome: Outcome, status: int, export: Export) -> Finding:
    if outcome.verdict is Verdict.DELIVERED:
        return passed(what, "takes an empty request")
    detail, _, cure = outcome.detail.partition("; ")
    if outcome.verdict is Verdict.RETRY and not cure:
        return warned(what, f"{detail}: it is there and overloaded, or its own backend is away", "read its log")
    if status == 404 and urlsplit(export.endpoint).path:  # noqa: PLR2004  # not found
        cure = "leave the path off export.endpoint: that of the signal is added to it"
    return failed(what, f"refuses an empty request: {detail}", cure or "check export.endpoint")


def _cure_of_silence(endpoint: str, error: NoAnswerError) -> str:
    if is_about_tls(error):
        return "name the authority of its certificate as export.tls.ca_file, or write http:// if it speaks no TLS"
    parts = urlsplit(endpoint)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    if port == _OTLP_GRPC_PORT:
        return f"that port takes gRPC by custom; {_OTHER_PORT}"
    try:
        socket.create_connection((parts.hostname, port), _CONNECT_TIMEOUT_S).close()
    except OSError:
        return "start it, or name its address as export.endpoint"
    return f"something listens there that answers no {parts.scheme}; {_OTHER_PORT}"
