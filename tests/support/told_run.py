"""Spans of sandboxes as lines of a joined file, and what a report makes of them."""

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.merging.join import sandboxes_of
from sandgauge_report.merging.sandboxes import Sandbox
from sandgauge_report.reading.documents import Document, documents
from sandgauge_report.reading.files import Line
from sandgauge_report.reading.otlp import spans
from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason, ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    StartRecord,
    Submission,
    SummaryRecord,
    UsageRecord,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.otlp_json import START_NS, from_resource, key_values, span, traces

RUN = "run-1"
TRACE = "5e" * 16
EXECD = ReadingStatus(source=ResourceSource.OPENSANDBOX_EXECD)
INSPECT = ReadingStatus(source=ResourceSource.OPENSANDBOX_INSPECT_KUBERNETES)


def keys(sandbox_id: str | None = "a", rollout_id: str | None = "0-0", **others: str | None) -> JoinKeys:
    """Return join keys of a sandbox of the first rollout, whose request is named after it."""
    told = {"run_id": RUN, "request_id": f"request-{sandbox_id}", "provider": "opensandbox", **others}
    return JoinKeys(sandbox_id=sandbox_id, rollout_id=rollout_id, **told)


def line(
    name: str, attributes: dict[str, Any], *, at_s: float = 0, lasts_s: float = 1, mark: object = "", **fields: Any
) -> str:
    """Return a line with one span; `mark` tells spans apart that are equal in all else."""
    begun_ns = START_NS + round(at_s * 1e9)
    sandbox_id = attributes.get(names.NEMO_GYM_SANDBOX_ID, attributes.get(names.NEMO_GYM_SANDBOX_REQUEST_ID))
    one = {
        **span(name, attributes, trace_id=TRACE),
        "spanId": blake2b(f"{name} {sandbox_id} {at_s} {mark}".encode(), digest_size=8).hexdigest(),
        "startTimeUnixNano": str(begun_ns),
        "endTimeUnixNano": str(begun_ns + round(lasts_s * 1e9)),
        **fields,
    }
    return json.dumps(traces(from_resource({}, one))) + "\n"


def requested(at: JoinKeys, count: int = 1, **amounts: Any) -> str:
    """Return a request's line."""
    asking = JoinKeys(run_id=at.run_id, rollout_id=at.rollout_id, request_id=at.request_id, provider=at.provider)
    record = RequestRecord(keys=asking, count=count, requested=SandboxResources(**amounts))
    return line(names.SPAN_GYM_SANDBOX_REQUEST, record.to_attributes(), at_s=-1, lasts_s=0)


def started(at: JoinKeys, *, requests: dict[str, Any] | None = None, **limits: Any) -> str:
    """Return a start's line, with the limits submitted; without any the SDK's default was asked for."""
    submission = Submission(
        limits=SandboxResourceAmounts(**limits),
        requests=SandboxResourceAmounts(**(requests or {})),
        sdk_default=None if limits or requests else True,
    )
    return line(names.SPAN_GYM_SANDBOX_START, StartRecord(keys=at, submission=submission).to_attributes())


def refused(at: JoinKeys, error_type: str = "SandboxCreateError", mark: object = "") -> str:
    """Return the line of a start that failed."""
    event = {"name": "exception", "attributes": key_values({"exception.type": error_type})}
    keys_of_it = JoinKeys(run_id=at.run_id, rollout_id=at.rollout_id, request_id=at.request_id, provider=at.provider)
    attributes = StartRecord(keys=keys_of_it).to_attributes()
    return line(names.SPAN_GYM_SANDBOX_START, attributes, mark=mark, events=[event], status={"code": 2})


def allocated(at: JoinKeys, *components: ComponentAllocation, notes: tuple[str, ...] = (), **limits: Any) -> str:
    """Return an allocation's line; limits are those of the only component."""
    only = ComponentAllocation(name="sandbox", limits=SandboxResourceAmounts(**limits))
    record = AllocationRecord(
        keys=at, status=INSPECT, allocation=Allocation(components=components or (only,), notes=notes)
    )
    return line(names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, record.to_attributes(), at_s=1)


def sampled(
    at: JoinKeys,
    at_s: float,
    memory_mib: float,
    *,
    total_mib: float,
    scope: str = SampleScope.SANDBOX,
    cpu: float = 10.0,
) -> str:
    """Return the line of a good reading by execd."""
    evidence = ScopeEvidence.TOTAL_EXCEEDS_LIMIT if scope == SampleScope.NODE else ScopeEvidence.TOTAL_MATCHES_LIMIT
    record = SampleRecord(
        keys=at,
        status=EXECD,
        cpu_used_percentage=cpu,
        memory_used_mib=memory_mib,
        memory_total_mib=total_mib,
        memory_scope=scope,
        memory_scope_evidence=evidence,
        cpu_scope=SampleScope.NODE if scope == SampleScope.NODE else SampleScope.UNKNOWN,
    )
    return line(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, record.to_attributes(), at_s=at_s)


def used(at: JoinKeys, at_s: float, *, source: str = ResourceSource.DOCKER_STATS, **numbers: Any) -> str:
    """Return the line of a good reading by a usage source."""
    record = UsageRecord(keys=at, status=ReadingStatus(source=source), **numbers)
    return line(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, record.to_attributes(), at_s=at_s, mark=source)


def failed(at: JoinKeys, at_s: float, error_type: str = "timeout") -> str:
    """Return the line of a failed reading."""
    record = SampleRecord(keys=at, status=ReadingStatus(source=EXECD.source, error_type=error_type))
    return line(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, record.to_attributes(), at_s=at_s)


def stopped(at: JoinKeys, at_s: float, **fields: Any) -> str:
    """Return a stop's line."""
    return line(names.SPAN_GYM_SANDBOX_STOP, at.to_attributes(), at_s=at_s, lasts_s=0, **fields)


def ended(at: JoinKeys, at_s: float, *, end_reason: str = EndReason.STOPPED, leaked: bool = False, **more: Any) -> str:
    """Return a summary's line."""
    record = SummaryRecord(keys=at, end_reason=end_reason, leaked=leaked, **{"lifetime_s": at_s - 1, **more})
    return line(names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, record.to_attributes(), at_s=at_s, lasts_s=0)


def rollout_over(at: JoinKeys, at_s: float) -> str:
    """Return the line of a rollout's span."""
    attributes = JoinKeys(run_id=at.run_id, rollout_id=at.rollout_id).to_attributes()
    return line(names.SPAN_GYM_ROLLOUT, attributes, lasts_s=at_s, mark=at.rollout_id)


def merged(lines: Iterable[str]) -> tuple[Sandbox, ...]:
    """Return what a report makes of lines."""
    inventory = Inventory()
    for document in documents(Line(number, text.encode()) for number, text in enumerate(lines, start=1)):
        assert isinstance(document, Document), document
        for one in spans(document.content):
            inventory.add(one)
    return sandboxes_of(inventory)
