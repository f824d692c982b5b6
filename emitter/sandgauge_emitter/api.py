"""What a framework calls: one request for each wish, and what became of it."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as counter
from typing import TYPE_CHECKING

from sandgauge_emitter import inputs
from sandgauge_emitter.faults import FAULTS, LOGGER
from sandgauge_emitter.inputs import Resources
from sandgauge_emitter.settings import SETTINGS
from sandgauge_schemas.records import JoinKeys, RequestRecord, Sidecar, StartRecord, Submission

if TYPE_CHECKING:
    from opentelemetry.context import Context


def configure(enabled: bool | None = None, endpoint: str | None = None, run_id: str | None = None) -> None:
    """Set what comes before the environment; None leaves a setting as it is.

    `enabled` wins over `SANDGAUGE_ENABLED`, `endpoint` (the Collector's base URL, such as `http://127.0.0.1:4318`) over
    `OTEL_EXPORTER_OTLP_ENDPOINT`, `run_id` over `NEMO_GYM_OTEL_RUN_ID`. The endpoint matters only where the process has
    no tracer provider of its own. Never raises.
    """
    with FAULTS.guard("configure"):
        complain = partial(_complain, "configure")
        SETTINGS.update(
            enabled=inputs.flag(enabled, "enabled", complain),
            endpoint=inputs.text(endpoint, "endpoint", complain),
            run_id=inputs.text(run_id, "run_id", complain),
        )


def record_request(  # noqa: PLR0913  # what a request can say, each by its name
    *,
    provider: str,
    resources: Resources = None,
    count: int = 1,
    run_id: str | None = None,
    rollout_id: str | None = None,
    sidecars: Iterable[Sidecar | tuple[str, Resources]] = (),
    collection_id: str | None = None,
    service_name: str | None = None,
    sample_interval_s: float | None = None,
) -> "SandboxRequest":
    """Record one logical request for `count` sandboxes, before the provider is called; retries are no new requests.

    Emits `gym.sandbox.request` at once, in the current trace. `resources` is what was declared; sidecars are further
    containers inside the same sandbox. `sample_interval_s` asks for the seconds between two readings, and 0 for none.
    What cannot be true is left out with a warning. Never raises and never waits for the network.
    """
    request_id = inputs.new_id()
    recorded: _Recorded | None = None
    with FAULTS.guard("record_request"):
        complain = partial(_complain, "record_request")
        if SETTINGS.enabled and (known_provider := inputs.required_text(provider, "provider", complain)):
            # Late, so that a process whose telemetry is off never loads OpenTelemetry.
            from sandgauge_emitter import spans, tracing  # noqa: PLC0415

            keys = JoinKeys(
                run_id=inputs.text(run_id, "run_id", complain) or tracing.current_run_id(),
                rollout_id=inputs.text(rollout_id, "rollout_id", complain),
                request_id=request_id,
                provider=known_provider,
            )
            record = RequestRecord(
                keys=keys,
                count=inputs.count(count, complain),
                requested=inputs.requested(resources, complain),
                sidecars=inputs.sidecars(sidecars, complain),
                collection_id=inputs.text(collection_id, "collection_id", complain),
                service_name=inputs.text(service_name, "service_name", complain),
            )
            recorded = _Recorded(
                keys=keys,
                count=record.count,
                sample_interval_s=inputs.number(sample_interval_s, "sample_interval_s", complain),
                start_ns=time.time_ns(),
                context=tracing.parent_context(),
            )
            spans.emit_request(record, recorded.context, recorded.start_ns)
    return SandboxRequest(request_id, recorded)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a start span takes over from its request."""

    keys: JoinKeys
    count: int
    sample_interval_s: float | None
    start_ns: int
    context: "Context"


class SandboxRequest:
    """One logical request. Made by `record_request`; while telemetry is off it stays silent for good.

    `request_id` is always a real id, so that a framework may log it or hand it on.
    """

    __slots__ = ("_recorded", "_starts", "request_id")

    def __init__(self, request_id: str, recorded: _Recorded | None = None) -> None:
        self.request_id = request_id
        self._recorded = recorded
        self._starts = counter(1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(request_id={self.request_id!r})"

    def started(
        self,
        sandbox_id: str,
        *,
        submitted_requests: Resources = None,
        submitted_limits: Resources = None,
        sdk_default: bool | None = None,
        scope: str | None = None,
    ) -> None:
        """Record that a sandbox of this request exists; once for each of them, from any thread.

        Emits `gym.sandbox.start`, from the time of the request until now. `submitted_*` is what the provider was sent
        after any clamping; what was left to its SDK stays out, and `sdk_default` says that the whole shape was. `scope`
        is the control plane's URL; its user information, query and fragment are taken off. Never raises.
        """
        with FAULTS.guard("started"):
            recorded = self._recorded
            if recorded is None or not SETTINGS.enabled:
                return
            complain = partial(_complain, "started")
            created = inputs.required_text(sandbox_id, "sandbox_id", complain)
            if created is None:
                return  # without an id the span would say that nothing was created
            if next(self._starts) == recorded.count + 1:
                LOGGER.debug("Request %s has more sandboxes than the %d it asked for", self.request_id, recorded.count)
            record = StartRecord(
                keys=replace(recorded.keys, sandbox_id=created),
                submission=Submission(
                    requests=inputs.submitted(submitted_requests, "submitted_requests", complain),
                    limits=inputs.submitted(submitted_limits, "submitted_limits", complain),
                    sdk_default=inputs.flag(sdk_default, "sdk_default", complain),
                ),
                scope=inputs.scope(scope, complain),
                sample_interval_s=recorded.sample_interval_s,
            )
            _emit_start(record, recorded)

    def failed(self, error_type: str) -> None:
        """Record that a sandbox of this request could not be created; it stays in the inventory.

        `error_type` is a word such as `timeout`, or the name of the error's class. Never its message, which may hold
        secrets: whatever does not look like a type is recorded as `_OTHER`. Never raises.
        """
        with FAULTS.guard("failed"):
            recorded = self._recorded
            if recorded is None or not SETTINGS.enabled:
                return
            record = StartRecord(keys=recorded.keys, sample_interval_s=recorded.sample_interval_s)
            _emit_start(record, recorded, inputs.error_type(error_type))


def _emit_start(record: StartRecord, recorded: _Recorded, error_type: str | None = None) -> None:
    from sandgauge_emitter import spans, tracing  # noqa: PLC0415  # late, as above

    # A sandbox that comes up outside any trace belongs to that of its request.
    spans.emit_start(record, tracing.parent_context(recorded.context), recorded.start_ns, error_type)


def _complain(call: str, complaint: str) -> None:
    FAULTS.note(f"{call}: {complaint}")
