"""Scenarios of Gym users, run in stock Gym's environment, and the spans that each sent."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from support.otlp_proto import SeenSpan, spans_of
from support.otlp_sink import OtlpSink
from support.simulated_osb import SimulatedOsb
from support.stock_gym import stock_gym

_PROGRAM = ("-m", "support.gym_scenarios", "run")
_LINE = '{"scenario": '
# Whose a span is that belongs to no scenario; the host's has its name for a scope.
_HOST, _NOBODY = "host", "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySetup:
    """What telemetry there is in a process: nemo-lens, an SDK of the host, and the span groups enabled by hand."""

    lens: bool
    host: bool
    groups: tuple[str, ...] = ()


LENS_ABSENT = TelemetrySetup(lens=False, host=True)
LENS_AND_HOST = TelemetrySetup(lens=True, host=True)
GROUPS_ENABLED = TelemetrySetup(lens=True, host=True, groups=("sandbox", "rollout"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """What the caller of Gym saw, and the spans that began meanwhile, in this process or a child of it."""

    seen: dict[str, Any]
    request: ExportTraceServiceRequest

    def spans(self) -> list[SeenSpan]:
        return list(spans_of(self.request))

    def otlp_json(self) -> dict[str, Any]:
        """Return the spans in the shape of OTLP/JSON; their ids are in base64."""
        return MessageToDict(self.request, use_integers_for_enums=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRun:
    """One process that ran scenarios.

    `host_spans` are the host's own: without any, nothing could have arrived. `stray_spans` belong to no scenario.
    """

    outcomes: Mapping[str, ScenarioOutcome]
    host_spans: Sequence[SeenSpan]
    stray_spans: Sequence[SeenSpan]
    stdout: str
    stderr: str


def run_scenarios(
    *scenarios: str,
    setup: TelemetrySetup,
    sink: OtlpSink,
    osb: SimulatedOsb | None = None,
    python: str = "3.13",
    environment: Mapping[str, str] | None = None,
    first: str = "",
    auto_instrumented: bool = False,
) -> ScenarioRun:
    """Run scenarios one after another in one process, which has ended, its spans sent, when this returns.

    `environment` adds variables and overrides those that are set here. `first` is Python code that the process and its
    children run before all else, with Gym not yet imported; `auto_instrumented` starts Python through
    `opentelemetry-instrument`. The control plane and the endpoint of the host's SDK come from `osb` and `sink`; another
    control plane is named by the variables of Gym's client (`opensandbox.py`).
    """
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
        "SCENARIO_FIRST": first,
        "SCENARIO_SPAN_GROUPS": ",".join(setup.groups),
    }
    if osb is not None:
        variables |= {"OPEN_SANDBOX_DOMAIN": osb.url, "OPEN_SANDBOX_API_KEY": osb.api_key or ""}
    if setup.host:
        variables["SCENARIO_HOST"] = "yes"
    before = len(sink.requests())
    ended = stock_gym(python, lens=setup.lens).run(
        *_PROGRAM, *scenarios, environment=variables | dict(environment or {}), auto_instrumented=auto_instrumented
    )
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(_LINE)]
    windows = {line["scenario"]: range(line["started_ns"], line["ended_ns"]) for line in lines}
    begun: dict[str, ExportTraceServiceRequest] = defaultdict(ExportTraceServiceRequest)
    for request in [one.message for one in sink.requests()[before:] if one.path == "/v1/traces"]:
        for resource_spans, scope_spans, span in _each_span(request):
            within = [name for name, window in windows.items() if span.start_time_unix_nano in window]
            owner = _HOST if scope_spans.scope.name == _HOST else next(iter(within), _NOBODY)
            kept = begun[owner].resource_spans.add(resource=resource_spans.resource)
            kept.scope_spans.add(scope=scope_spans.scope, spans=[span])
    return ScenarioRun(
        outcomes={
            line["scenario"]: ScenarioOutcome(seen=line["seen"], request=begun[line["scenario"]]) for line in lines
        },
        host_spans=list(spans_of(begun[_HOST])),
        stray_spans=list(spans_of(begun[_NOBODY])),
        stdout=ended.stdout,
        stderr=ended.stderr,
    )


def _each_span(request: ExportTraceServiceRequest) -> Iterator[tuple[ResourceSpans, ScopeSpans, Span]]:
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield resource_spans, scope_spans, span
