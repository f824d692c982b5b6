"""What an answer to an OTLP/HTTP request means: delivered, to be sent again, or refused for good."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sandgauge_schemas.names import Signal

PROTOBUF = "application/x-protobuf"

_RETRYABLE = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_CURES = {
    HTTPStatus.UNAUTHORIZED: "check export.headers",
    HTTPStatus.FORBIDDEN: "check export.headers",
    HTTPStatus.NOT_FOUND: "check export.endpoint",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "check export.endpoint: an OTLP/HTTP port, most often 4318",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "raise the receiver's max_request_body_size",
}
_MAX_MESSAGE = 200
_LONGEST_RETRY_AFTER_S = 3600.0


class Verdict(Enum):
    """What becomes of the records in a request."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer: names of headers in small letters, the body as far as it was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict on a request. `detail` is for the log.

    `rejected` counts spans or points that the receiver refused of a delivered request; `retry_after_s` is how long it
    asked to be left alone.
    """

    verdict: Verdict
    rejected: int = 0
    retry_after_s: float | None = None
    detail: str = ""


def classify(signal: Signal, answer: Answer, *, now_s: float) -> Outcome:
    """Judge an answer; `now_s`, seconds since the epoch, is what a Retry-After date is counted from.

    OTLP/HTTP names the codes to retry. A success whose body is no OTLP came from something else on the way, such as a
    login page, so nothing was delivered.
    """
    if answer.status in _RETRYABLE:
        retry_after_s = _retry_after_s(answer.headers.get("retry-after", ""), now_s)
        return Outcome(verdict=Verdict.RETRY, retry_after_s=retry_after_s, detail=f"HTTP {answer.status}")
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        cure = next((f"; {cure}" for status, cure in _CURES.items() if status == answer.status), "")
        return Outcome(verdict=Verdict.REJECTED, detail=f"HTTP {answer.status}{cure}")
    if not answer.body:
        return Outcome(verdict=Verdict.DELIVERED)
    partial = _partial_success(signal, answer)
    if partial is None:
        detail = f"HTTP {answer.status} with a body that is not OTLP; check export.endpoint"
        return Outcome(verdict=Verdict.RETRY, detail=detail)
    rejected, message = partial
    return Outcome(verdict=Verdict.DELIVERED, rejected=rejected, detail=message)


def _partial_success(signal: Signal, answer: Answer) -> tuple[int, str] | None:
    """Return how many were refused and what was said; None when the body is no OTLP response."""
    traces, metrics = ExportTraceServiceResponse(), ExportMetricsServiceResponse()
    response = traces if signal is Signal.TRACES else metrics
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if answer.body.lstrip().startswith(b"{"):
            json_format.Parse(answer.body, response, ignore_unknown_fields=True)
        elif media_type in (PROTOBUF, ""):
            response.ParseFromString(answer.body)
        else:
            return None
    except (DecodeError, json_format.ParseError, ValueError, RecursionError):
        return None
    rejected = traces.partial_success.rejected_spans or metrics.partial_success.rejected_data_points
    message = response.partial_success.error_message
    shown = "".join(character if character.isprintable() else " " for character in message[:_MAX_MESSAGE])
    return max(rejected, 0), shown


def _retry_after_s(text: str, now_s: float) -> float | None:
    """Read whole seconds or an HTTP date; None when it is neither, or asks for no wait."""
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        seconds = float(stripped)
    else:
        try:
            moment = parsedate_to_datetime(stripped)
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now_s
        except (ValueError, OverflowError):
            return None
    return min(seconds, _LONGEST_RETRY_AFTER_S) if seconds > 0 else None
