"""Every instrument of the poller, used once: the names it must have, and what the looked-up ones find."""

from dataclasses import dataclass

from sandgauge_poller.self_metrics import OutboxState
from sandgauge_schemas import names
from sandgauge_schemas.names import (
    ConflictKind,
    ErrorType,
    ExportOutcome,
    LeftOutReason,
    ReadKind,
    SandboxState,
    Signal,
    SpanOutcome,
    SpanReason,
)

SELF_METRICS = {name for name in names.METRIC_UNITS if name.startswith("sandgauge.poller.")}


@dataclass(frozen=True)
class Window:
    start_ns: int = 1_000_000_000
    end_ns: int = 2_250_000_000
    wait_s: float = 0.5


class Observed:
    def sandboxes(self):
        return {("training", SandboxState.ACTIVE): 3, (None, SandboxState.UNMATCHED): 1}

    def leaks(self):
        return {"training": 2}

    def effective_intervals_s(self):
        return {"training": 12.5}

    def outbox(self):
        items = {outcome: number for number, outcome in enumerate(ExportOutcome)}
        return {signal: OutboxState(size=10, age_s=0.5, items=items) for signal in Signal}


def use_everything(metrics):
    metrics.read("training", ReadKind.SAMPLE, None, Window())
    metrics.read("training", ReadKind.SAMPLE, ErrorType.TIMEOUT, Window())
    metrics.read("training", ReadKind.STATUS, ErrorType.NOT_FOUND, Window())
    metrics.lateness("training", 0.002)
    metrics.discovery_lag("training", 1.2)
    metrics.spans(SpanOutcome.ACCEPTED, None, 4)
    metrics.spans(SpanOutcome.IGNORED, SpanReason.OTHER_SPAN, 2)
    metrics.points_left_out(LeftOutReason.AGE, 8)
    metrics.points_restamped("training", 1)
    metrics.conflict(ConflictKind.ROLLOUT)
    metrics.observe(Observed())
