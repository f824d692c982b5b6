"""What is going on around the current code: a start, and the creation within it."""

from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from opentelemetry import trace
from opentelemetry.trace import Span

from sandgauge_emitter import inputs, spans
from sandgauge_emitter.gym.inventory import Occasion, complain
from sandgauge_schemas import names
from sandgauge_schemas.records import JoinKeys, StartRecord, Submission


@dataclass(slots=True)
class Start:
    """One call of `AsyncSandbox.start`, open until it returns; `keys` are those of its request, once it has one.

    Gym refuses some starts before it calls the provider: those have no request.
    """

    sandbox: object
    occasion: Occasion = field(default_factory=Occasion)
    keys: JoinKeys | None = None
    is_open: bool = True


@dataclass(slots=True)
class Creation:
    """One call of a provider's `create`, open until it returns.

    `stock_span` is Gym's own `gym.sandbox.start` where there is one that records. The provider's client says what it
    submits, at each of its tries.
    """

    keys: JoinKeys
    sample_interval_s: float | None
    occasion: Occasion = field(default_factory=Occasion)
    stock_span: Span | None = field(default_factory=lambda: stock_span(names.SPAN_GYM_SANDBOX_START))
    submission: Submission = Submission()
    scope: str | None = None
    is_open: bool = True

    def end(self, *, sandbox_id: object = None, error: BaseException | None = None) -> None:
        """Complete Gym's start span, or emit one. A cancelled creation has neither a sandbox nor failed, as in Gym."""
        if self.stock_span is not None:
            self.stock_span.set_attributes(self._record(self.keys).to_attributes())
            return
        created = replace(self.keys, sandbox_id=inputs.text(sandbox_id, "sandbox_id", complain))
        error_type = inputs.error_type(type(error).__name__) if isinstance(error, Exception) else None
        spans.emit_start(self._record(created), self.occasion.context, self.occasion.at_ns, error_type)

    def _record(self, keys: JoinKeys) -> StartRecord:
        return StartRecord(
            keys=keys, submission=self.submission, scope=self.scope, sample_interval_s=self.sample_interval_s
        )


START: ContextVar[Start | None] = ContextVar("sandgauge_gym_start", default=None)
CREATION: ContextVar[Creation | None] = ContextVar("sandgauge_gym_creation", default=None)


def stock_span(name: str) -> Span | None:
    """Return the current span if it is Gym's own of this name and records."""
    span = trace.get_current_span()
    return span if span.is_recording() and getattr(span, "name", None) == name else None
