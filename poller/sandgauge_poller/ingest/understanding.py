"""From the body of a request to its events, pure: what can take long, and what an unforeseen body could break."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from sandgauge_poller.ingest.events import LifecycleEvent
from sandgauge_poller.ingest.lifecycle import interpret
from sandgauge_poller.ingest.otlp_json import decode_json
from sandgauge_poller.ingest.otlp_protobuf import decode_protobuf
from sandgauge_poller.ingest.refusal import JSON, PROTOBUF
from sandgauge_poller.ingest.spans import ASK_EACH, AbandonedError, Decoded, always
from sandgauge_schemas.names import SpanOutcome, SpanReason

DECODERS: dict[str, Callable[[bytes, Callable[[], bool]], Decoded]] = {PROTOBUF: decode_protobuf, JSON: decode_json}
"""How to decode each content type that is taken."""


@dataclass(frozen=True, slots=True)
class Understood:
    """What a request holds: its events, each with what is odd about it, and how many spans are none, and why."""

    events: list[tuple[LifecycleEvent, SpanReason | None]]
    others: Counter[tuple[SpanOutcome, SpanReason | None]]
    contradictory: int
    """Spans with an attribute that stood there twice with different values."""

    @property
    def rejected(self) -> Counter[SpanReason | None]:
        """How many spans cannot be taken, by reason: their sender is told."""
        reasons: Counter[SpanReason | None] = Counter()
        for (outcome, reason), count in self.others.items():
            if outcome is SpanOutcome.REJECTED:
                reasons[reason] += count
        return reasons


def understand(content_type: str, body: bytes, received_ns: int, is_wanted: Callable[[], bool] = always) -> Understood:
    """Decode a body and interpret its spans; `received_ns` is the poller's clock.

    Raises UndecodableError, and AbandonedError soon after `is_wanted` says no.
    """
    decoded = DECODERS[content_type](body, is_wanted)
    others: Counter[tuple[SpanOutcome, SpanReason | None]] = Counter()
    for reason, count in decoded.passed_over.items():
        outcome = SpanOutcome.REJECTED if reason == SpanReason.TOO_LARGE else SpanOutcome.IGNORED
        others[outcome, reason] += count
    events = []
    for number, span in enumerate(decoded.spans):
        if number % ASK_EACH == 0 and not is_wanted():
            raise AbandonedError
        meaning = interpret(span, received_ns)
        if meaning.event is None:
            others[meaning.outcome, meaning.reason] += 1
        else:
            events.append((meaning.event, meaning.reason))
    return Understood(events, others, sum(span.contradictory for span in decoded.spans))
