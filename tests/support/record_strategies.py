"""Hypothesis strategies for the records of the contract, each as the emitter or the poller would make it."""

from dataclasses import replace

from hypothesis import strategies as st

from sandgauge_schemas.names import (
    AllocationNote,
    DesignatorKind,
    EndReason,
    ErrorType,
    HostKind,
    ResourceSource,
    SampleScope,
    ScopeEvidence,
)
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import (
    SUMMARY_QUANTITIES,
    Allocation,
    AllocationRecord,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    Sidecar,
    StartRecord,
    Statistics,
    Submission,
    SummaryRecord,
    UsageRecord,
)
from sandgauge_schemas.resources import LARGEST_AMOUNT, SandboxResourceAmounts, SandboxResources

texts = st.text(min_size=1, max_size=12)
sandbox_ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True)
counts = st.integers(0, LARGEST_AMOUNT)
doubles = st.floats(0, 1e18)

amounts = st.builds(
    SandboxResourceAmounts,
    cpu=st.none() | doubles,
    memory_mib=st.none() | doubles,
    disk_gib=st.none() | doubles,
    gpu=st.none() | counts,
    gpu_type=st.none() | texts,
)
resources = st.builds(
    SandboxResources,
    cpu=st.none() | doubles | st.integers(0, 4096),
    memory_mib=st.none() | st.integers(0, 2**53),
    disk_gib=st.none() | st.integers(0, 2**53),
    gpu=st.none() | counts,
    gpu_type=st.none() | texts,
)
join_keys = st.builds(
    JoinKeys,
    run_id=st.none() | texts,
    rollout_id=st.none() | texts,
    request_id=st.none() | texts,
    sandbox_id=sandbox_ids,
    provider=texts,
)
requests = st.builds(
    RequestRecord,
    keys=st.builds(JoinKeys, run_id=st.none() | texts, rollout_id=st.none() | texts, request_id=texts, provider=texts),
    count=st.integers(1, LARGEST_AMOUNT),
    requested=resources,
    sidecars=st.lists(st.builds(Sidecar, name=st.none() | texts, resources=resources), max_size=3).map(tuple),
    collection_id=st.none() | texts,
    service_name=st.none() | texts,
)
submissions = st.builds(Submission, requests=amounts, limits=amounts, sdk_default=st.none() | st.booleans())
starts = st.builds(
    StartRecord,
    keys=join_keys,
    submission=submissions,
    scope=st.none() | texts,
    sample_interval_s=st.none() | st.floats(0, 1e6),
)

_placements = st.builds(
    Allocation,
    notes=st.lists(st.sampled_from(AllocationNote), unique=True, max_size=3).map(tuple),
    designator=st.none() | st.builds(Identity, kind=st.sampled_from(DesignatorKind), scope=texts, id=texts),
    host=st.none() | st.builds(Identity, kind=st.sampled_from(HostKind), scope=texts, id=texts),
)
_components = st.lists(
    st.builds(ComponentAllocation, name=texts, requests=amounts, limits=amounts), min_size=1, max_size=3
).map(tuple)
allocations = st.builds(
    lambda placement, components: replace(placement, components=components), _placements, _components
)
allocation_records = st.builds(
    AllocationRecord,
    keys=join_keys,
    status=st.builds(ReadingStatus, source=st.sampled_from(ResourceSource)),
    allocation=allocations,
) | st.builds(
    AllocationRecord,
    keys=join_keys,
    status=st.builds(ReadingStatus, source=st.sampled_from(ResourceSource), error_type=st.sampled_from(ErrorType)),
    allocation=_placements,
)

_execd = st.just(ResourceSource.OPENSANDBOX_EXECD)
_evidence = st.none() | st.sampled_from(ScopeEvidence)
samples = st.builds(
    SampleRecord,
    keys=join_keys,
    status=st.builds(ReadingStatus, source=_execd),
    timestamp_ms=st.none() | counts,
    cpu_count=st.none() | doubles,
    cpu_used_percentage=st.none() | st.floats(0, 100),
    memory_total_mib=st.none() | doubles,
    memory_used_mib=st.none() | doubles,
    cpu_scope=st.none() | st.sampled_from(SampleScope),
    cpu_scope_evidence=_evidence,
    memory_scope=st.none() | st.sampled_from(SampleScope),
    memory_scope_evidence=_evidence,
    final=st.none() | st.booleans(),
) | st.builds(
    SampleRecord,
    keys=join_keys,
    status=st.builds(ReadingStatus, source=_execd, error_type=st.sampled_from(ErrorType)),
    final=st.none() | st.booleans(),
)

_usage_sources = st.sampled_from([ResourceSource.DOCKER_STATS, ResourceSource.KUBERNETES_METRICS])
usages = st.builds(
    UsageRecord,
    keys=join_keys,
    status=st.builds(ReadingStatus, source=_usage_sources),
    timestamp_ms=st.none() | counts,
    cpu_used_cores=st.none() | doubles,
    window_s=st.none() | doubles,
    cpu_time_s=st.none() | doubles,
    memory_working_set_mib=st.none() | doubles,
    cpu_throttled_s=st.none() | doubles,
    oom_kills=st.none() | counts,
) | st.builds(
    UsageRecord,
    keys=join_keys,
    status=st.builds(ReadingStatus, source=_usage_sources, error_type=st.sampled_from(ErrorType)),
)

statistics = st.builds(Statistics, doubles, doubles, doubles, doubles)
summaries = st.builds(
    SummaryRecord,
    keys=join_keys,
    end_reason=st.sampled_from(EndReason),
    leaked=st.booleans(),
    oom_killed=st.none() | st.booleans(),
    lifetime_s=st.none() | doubles,
    readings_count=counts,
    readings_missed=counts,
    effective_interval_s=st.none() | doubles,
    statistics=st.dictionaries(st.sampled_from(SUMMARY_QUANTITIES), statistics),
    cpu_scope=st.none() | st.sampled_from(SampleScope),
    memory_scope=st.none() | st.sampled_from(SampleScope),
    cpu_time_s=st.none() | doubles,
    oom_kills=st.none() | counts,
    usage_source=st.none() | _usage_sources,
    resets=counts,
    requested=resources,
    submission=submissions,
    allocation=_placements | allocations,
)
