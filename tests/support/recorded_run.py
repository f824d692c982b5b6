"""A joined file of any size, as the Collector would have written it: sandboxes side by side, reading by reading."""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason, ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    StartRecord,
    Statistics,
    Submission,
    SummaryRecord,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.otlp_json import START_NS, key_values

SPANS_BESIDE_READINGS = 5
"""Of each sandbox: request, start, allocation, stop, summary."""

RUN_ID = "run-recorded"
_INTERVAL_NS = 10_000_000_000
_LIMIT_MIB = 2048
_SANDBOXES_PER_ROLLOUT = 2
_SPANS_PER_LINE = 2000


def recorded_run(*, sandboxes: int, readings: int) -> Iterator[str]:
    """Yield the lines of a run whose sandboxes are all read so many times."""
    keys = [_keys(number) for number in range(sandboxes)]
    yield from _lines(span for one in keys for span in _begin(one))
    templates = [_template(one) for one in keys]
    for reading in range(readings):
        yield from _lines(
            (one, _reading(one, template, number, reading))
            for number, (one, template) in enumerate(zip(keys, templates, strict=True))
        )
    end_ns = START_NS + readings * _INTERVAL_NS
    yield from _lines(span for one in keys for span in _end(one, readings, end_ns))


def _keys(number: int) -> JoinKeys:
    task, rollout = divmod(number // _SANDBOXES_PER_ROLLOUT, 4)
    return JoinKeys(
        run_id=RUN_ID,
        rollout_id=f"{task}-{rollout}",
        request_id=f"request-{number}",
        sandbox_id=f"5e0d0000-0000-4000-8000-{number:012x}",
        provider="opensandbox",
    )


_Keyed = tuple[JoinKeys, str]


def _lines(spans: Iterator[_Keyed]) -> Iterator[str]:
    """Put spans into lines, each with one resource for each rollout."""
    groups: dict[str | None, list[str]] = {}
    count = 0
    for keys, span in spans:
        groups.setdefault(keys.rollout_id, []).append(span)
        count += 1
        if count == _SPANS_PER_LINE:
            yield _line(groups)
            groups, count = {}, 0
    if groups:
        yield _line(groups)


def _line(groups: dict[str | None, list[str]]) -> str:
    parts = []
    for rollout_id, spans in groups.items():
        resource = json.dumps(key_values({names.NEMO_RUN_ID: RUN_ID, names.NEMO_GYM_ROLLOUT_ID: rollout_id}))
        scope = f'{{"scope":{{"name":"sandgauge.joined"}},"spans":[{",".join(spans)}]}}'
        parts.append(f'{{"resource":{{"attributes":{resource}}},"scopeSpans":[{scope}]}}')
    return f'{{"resourceSpans":[{",".join(parts)}]}}\n'


def _begin(keys: JoinKeys) -> Iterator[_Keyed]:
    shape = SandboxResources(cpu=2, memory_mib=_LIMIT_MIB)
    limits = SandboxResourceAmounts(cpu=2.0, memory_mib=float(_LIMIT_MIB))
    component = ComponentAllocation(name="sandbox", limits=limits)
    allocation = AllocationRecord(
        keys=keys,
        status=ReadingStatus(source=ResourceSource.OPENSANDBOX_INSPECT_DOCKER),
        allocation=Allocation(
            components=(component,),
            notes=("rounded",),
            designator=Identity("docker-container", "http://10.0.0.5:8080", "3f5b12aa90cd"),
        ),
    )
    request = RequestRecord(keys=keys, requested=shape)
    start = StartRecord(keys=keys, submission=Submission(limits=limits), scope="http://10.0.0.5:8080")
    yield keys, _span(keys, names.SPAN_GYM_SANDBOX_REQUEST, request.to_attributes(), START_NS)
    yield keys, _span(keys, names.SPAN_GYM_SANDBOX_START, start.to_attributes(), START_NS)
    yield keys, _span(keys, names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, allocation.to_attributes(), START_NS)


def _end(keys: JoinKeys, readings: int, end_ns: int) -> Iterator[_Keyed]:
    summary = SummaryRecord(
        keys=keys,
        end_reason=EndReason.STOPPED,
        leaked=False,
        lifetime_s=(end_ns - START_NS) / 1e9,
        readings_count=readings,
        effective_interval_s=_INTERVAL_NS / 1e9,
        statistics={"memory_used_mib": Statistics(512.0, 1024.0, 1536.0, 1024.0)},
        memory_scope=SampleScope.SANDBOX,
    )
    stop_attributes = keys.to_attributes()
    yield keys, _span(keys, names.SPAN_GYM_SANDBOX_STOP, stop_attributes, end_ns)
    yield keys, _span(keys, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, summary.to_attributes(), end_ns)


_SPAN_ID, _TIME, _END, _CPU, _MEMORY = "<span id>", "<time>", "<end>", "<cpu>", "<memory>"
_MARKS = (0.125, 0.375)


def _template(keys: JoinKeys) -> str:
    """Return a sample span whose ids, times and numbers are still to be filled in: a million are made."""
    record = SampleRecord(
        keys=keys,
        status=ReadingStatus(source=ResourceSource.OPENSANDBOX_EXECD),
        timestamp_ms=START_NS // 1_000_000,
        cpu_count=2.0,
        cpu_used_percentage=_MARKS[0],
        memory_total_mib=float(_LIMIT_MIB),
        memory_used_mib=_MARKS[1],
        cpu_scope=SampleScope.UNKNOWN,
        cpu_scope_evidence=ScopeEvidence.UNDECIDED,
        memory_scope=SampleScope.SANDBOX,
        memory_scope_evidence=ScopeEvidence.TOTAL_MATCHES_LIMIT,
    )
    text = _span(keys, names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, record.to_attributes(), 0, span_id=_SPAN_ID)
    return (
        text.replace("%", "%%")
        .replace(_SPAN_ID, "%(id)s")
        .replace('"startTimeUnixNano": "0"', '"startTimeUnixNano": "%(start)d"')
        .replace('"endTimeUnixNano": "1000000000"', '"endTimeUnixNano": "%(end)d"')
        .replace(str(_MARKS[0]), "%(cpu).1f")
        .replace(str(_MARKS[1]), "%(memory).1f")
    )


def _reading(keys: JoinKeys, template: str, number: int, reading: int) -> str:
    start_ns = START_NS + reading * _INTERVAL_NS + number
    return template % {
        "id": _hash(f"{keys.sandbox_id} {reading}", 8),
        "start": start_ns,
        "end": start_ns + 1_020_000_000,
        "cpu": (number * 7 + reading * 13) % 1000 / 10,
        "memory": 512 + (number * 31 + reading * 17) % 1024,
    }


def _span(keys: JoinKeys, name: str, attributes: dict[str, Any], start_ns: int, *, span_id: str = "") -> str:
    beside = (names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID)
    trace_id = _hash(f"trace {keys.rollout_id}", 16)
    own = {key: value for key, value in attributes.items() if key not in beside}
    own |= {names.SERVICE_NAME: names.SANDGAUGE_POLLER_SERVICE_NAME, names.OTEL_TRACE_ID: trace_id}
    return json.dumps(
        {
            "traceId": trace_id,
            "spanId": span_id or _hash(f"{name} {keys.sandbox_id}", 8),
            "parentSpanId": _hash(f"{names.SPAN_GYM_SANDBOX_START} {keys.sandbox_id}", 8),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(start_ns),
            "endTimeUnixNano": str(start_ns + 1_000_000_000),
            "attributes": key_values(own),
            "status": {},
        }
    )


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
