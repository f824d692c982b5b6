"""Every telemetry name, once. Generated from schemas/registry by schemas/generate.py; do not edit."""

from enum import StrEnum

# Attributes
DEPLOYMENT = "deployment"
ERROR_TYPE = "error.type"
KIND = "kind"
NEMO_GYM_ROLLOUT_ID = "nemo.gym.rollout.id"
NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT = "nemo.gym.sandbox.allocation.component_count"
NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_ID = "nemo.gym.sandbox.allocation.designator.id"
NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_KIND = "nemo.gym.sandbox.allocation.designator.kind"
NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_SCOPE = "nemo.gym.sandbox.allocation.designator.scope"
NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID = "nemo.gym.sandbox.allocation.host.id"
NEMO_GYM_SANDBOX_ALLOCATION_HOST_KIND = "nemo.gym.sandbox.allocation.host.kind"
NEMO_GYM_SANDBOX_ALLOCATION_HOST_SCOPE = "nemo.gym.sandbox.allocation.host.scope"
NEMO_GYM_SANDBOX_ALLOCATION_NOTE = "nemo.gym.sandbox.allocation.note"
NEMO_GYM_SANDBOX_COLLECTION_ID = "nemo.gym.sandbox.collection.id"
NEMO_GYM_SANDBOX_END_OOM_KILLED = "nemo.gym.sandbox.end.oom_killed"
NEMO_GYM_SANDBOX_END_REASON = "nemo.gym.sandbox.end.reason"
NEMO_GYM_SANDBOX_ERROR_TYPE = "nemo.gym.sandbox.error_type"
NEMO_GYM_SANDBOX_ID = "nemo.gym.sandbox.id"
NEMO_GYM_SANDBOX_LEAKED = "nemo.gym.sandbox.leaked"
NEMO_GYM_SANDBOX_LIFETIME_S = "nemo.gym.sandbox.lifetime_s"
NEMO_GYM_SANDBOX_PROVIDER = "nemo.gym.sandbox.provider"
NEMO_GYM_SANDBOX_READINGS_COUNT = "nemo.gym.sandbox.readings.count"
NEMO_GYM_SANDBOX_READINGS_EFFECTIVE_INTERVAL_S = "nemo.gym.sandbox.readings.effective_interval_s"
NEMO_GYM_SANDBOX_READINGS_MISSED = "nemo.gym.sandbox.readings.missed"
NEMO_GYM_SANDBOX_REQUEST_ID = "nemo.gym.sandbox.request.id"
NEMO_GYM_SANDBOX_REQUESTED_COUNT = "nemo.gym.sandbox.requested.count"
NEMO_GYM_SANDBOX_REQUESTED_CPU = "nemo.gym.sandbox.requested.cpu"
NEMO_GYM_SANDBOX_REQUESTED_DISK_GIB = "nemo.gym.sandbox.requested.disk_gib"
NEMO_GYM_SANDBOX_REQUESTED_GPU = "nemo.gym.sandbox.requested.gpu"
NEMO_GYM_SANDBOX_REQUESTED_GPU_TYPE = "nemo.gym.sandbox.requested.gpu_type"
NEMO_GYM_SANDBOX_REQUESTED_MEMORY_MIB = "nemo.gym.sandbox.requested.memory_mib"
NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT = "nemo.gym.sandbox.requested.sidecar_count"
NEMO_GYM_SANDBOX_RESOURCE_SOURCE = "nemo.gym.sandbox.resource.source"
NEMO_GYM_SANDBOX_RESOURCE_STATUS = "nemo.gym.sandbox.resource.status"
NEMO_GYM_SANDBOX_RETURN_CODE = "nemo.gym.sandbox.return_code"
NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT = "nemo.gym.sandbox.sample.cpu_count"
NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE = "nemo.gym.sandbox.sample.cpu_scope"
NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE = "nemo.gym.sandbox.sample.cpu_scope_evidence"
NEMO_GYM_SANDBOX_SAMPLE_CPU_THROTTLED_S = "nemo.gym.sandbox.sample.cpu_throttled_s"
NEMO_GYM_SANDBOX_SAMPLE_CPU_TIME_S = "nemo.gym.sandbox.sample.cpu_time_s"
NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES = "nemo.gym.sandbox.sample.cpu_used_cores"
NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE = "nemo.gym.sandbox.sample.cpu_used_percentage"
NEMO_GYM_SANDBOX_SAMPLE_FINAL = "nemo.gym.sandbox.sample.final"
NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE = "nemo.gym.sandbox.sample.memory_scope"
NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE = "nemo.gym.sandbox.sample.memory_scope_evidence"
NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB = "nemo.gym.sandbox.sample.memory_total_mib"
NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB = "nemo.gym.sandbox.sample.memory_used_mib"
NEMO_GYM_SANDBOX_SAMPLE_MEMORY_WORKING_SET_MIB = "nemo.gym.sandbox.sample.memory_working_set_mib"
NEMO_GYM_SANDBOX_SAMPLE_OOM_KILLS = "nemo.gym.sandbox.sample.oom_kills"
NEMO_GYM_SANDBOX_SAMPLE_SCOPE = "nemo.gym.sandbox.sample.scope"
NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS = "nemo.gym.sandbox.sample.timestamp_ms"
NEMO_GYM_SANDBOX_SAMPLE_WINDOW_S = "nemo.gym.sandbox.sample.window_s"
NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S = "nemo.gym.sandbox.sample_interval_s"
NEMO_GYM_SANDBOX_SCOPE = "nemo.gym.sandbox.scope"
NEMO_GYM_SANDBOX_SERVICE_NAME = "nemo.gym.sandbox.service.name"
NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU = "nemo.gym.sandbox.submitted.limits.cpu"
NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_DISK_GIB = "nemo.gym.sandbox.submitted.limits.disk_gib"
NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_GPU = "nemo.gym.sandbox.submitted.limits.gpu"
NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_GPU_TYPE = "nemo.gym.sandbox.submitted.limits.gpu_type"
NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_MEMORY_MIB = "nemo.gym.sandbox.submitted.limits.memory_mib"
NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_CPU = "nemo.gym.sandbox.submitted.requests.cpu"
NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_DISK_GIB = "nemo.gym.sandbox.submitted.requests.disk_gib"
NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_GPU = "nemo.gym.sandbox.submitted.requests.gpu"
NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_GPU_TYPE = "nemo.gym.sandbox.submitted.requests.gpu_type"
NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_MEMORY_MIB = "nemo.gym.sandbox.submitted.requests.memory_mib"
NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT = "nemo.gym.sandbox.submitted.sdk_default"
NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT_LAST = "nemo.gym.sandbox.summary.cpu_count.last"
NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT_MAX = "nemo.gym.sandbox.summary.cpu_count.max"
NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT_MEAN = "nemo.gym.sandbox.summary.cpu_count.mean"
NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT_MIN = "nemo.gym.sandbox.summary.cpu_count.min"
NEMO_GYM_SANDBOX_SUMMARY_CPU_SCOPE = "nemo.gym.sandbox.summary.cpu_scope"
NEMO_GYM_SANDBOX_SUMMARY_CPU_TIME_S = "nemo.gym.sandbox.summary.cpu_time_s"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_CORES_LAST = "nemo.gym.sandbox.summary.cpu_used_cores.last"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_CORES_MAX = "nemo.gym.sandbox.summary.cpu_used_cores.max"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_CORES_MEAN = "nemo.gym.sandbox.summary.cpu_used_cores.mean"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_CORES_MIN = "nemo.gym.sandbox.summary.cpu_used_cores.min"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_PERCENTAGE_LAST = "nemo.gym.sandbox.summary.cpu_used_percentage.last"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_PERCENTAGE_MAX = "nemo.gym.sandbox.summary.cpu_used_percentage.max"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_PERCENTAGE_MEAN = "nemo.gym.sandbox.summary.cpu_used_percentage.mean"
NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_PERCENTAGE_MIN = "nemo.gym.sandbox.summary.cpu_used_percentage.min"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE = "nemo.gym.sandbox.summary.memory_scope"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_TOTAL_MIB_LAST = "nemo.gym.sandbox.summary.memory_total_mib.last"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_TOTAL_MIB_MAX = "nemo.gym.sandbox.summary.memory_total_mib.max"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_TOTAL_MIB_MEAN = "nemo.gym.sandbox.summary.memory_total_mib.mean"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_TOTAL_MIB_MIN = "nemo.gym.sandbox.summary.memory_total_mib.min"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_LAST = "nemo.gym.sandbox.summary.memory_used_mib.last"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_MAX = "nemo.gym.sandbox.summary.memory_used_mib.max"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_MEAN = "nemo.gym.sandbox.summary.memory_used_mib.mean"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_MIN = "nemo.gym.sandbox.summary.memory_used_mib.min"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_WORKING_SET_MIB_LAST = "nemo.gym.sandbox.summary.memory_working_set_mib.last"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_WORKING_SET_MIB_MAX = "nemo.gym.sandbox.summary.memory_working_set_mib.max"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_WORKING_SET_MIB_MEAN = "nemo.gym.sandbox.summary.memory_working_set_mib.mean"
NEMO_GYM_SANDBOX_SUMMARY_MEMORY_WORKING_SET_MIB_MIN = "nemo.gym.sandbox.summary.memory_working_set_mib.min"
NEMO_GYM_SANDBOX_SUMMARY_OOM_KILLS = "nemo.gym.sandbox.summary.oom_kills"
NEMO_GYM_SANDBOX_SUMMARY_RESETS = "nemo.gym.sandbox.summary.resets"
NEMO_GYM_SANDBOX_SUMMARY_USAGE_SOURCE = "nemo.gym.sandbox.summary.usage_source"
NEMO_GYM_SERVER_NAME = "nemo.gym.server.name"
NEMO_RUN_ID = "nemo.run.id"
OTEL_TRACE_ID = "otel.trace_id"
OUTCOME = "outcome"
REASON = "reason"
SANDGAUGE_TRACE_GROUP = "sandgauge.trace_group"
SERVICE_INSTANCE_ID = "service.instance.id"
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
SIGNAL = "signal"
STATE = "state"

# Prefixes of families: each is followed by a dot and a word of its vocabulary
PREFIX_NEMO_GYM_SANDBOX_REQUESTED = "nemo.gym.sandbox.requested"
PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS = "nemo.gym.sandbox.submitted.limits"
PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS = "nemo.gym.sandbox.submitted.requests"
PREFIX_NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT = "nemo.gym.sandbox.summary.cpu_count"
PREFIX_NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_CORES = "nemo.gym.sandbox.summary.cpu_used_cores"
PREFIX_NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_PERCENTAGE = "nemo.gym.sandbox.summary.cpu_used_percentage"
PREFIX_NEMO_GYM_SANDBOX_SUMMARY_MEMORY_TOTAL_MIB = "nemo.gym.sandbox.summary.memory_total_mib"
PREFIX_NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB = "nemo.gym.sandbox.summary.memory_used_mib"
PREFIX_NEMO_GYM_SANDBOX_SUMMARY_MEMORY_WORKING_SET_MIB = "nemo.gym.sandbox.summary.memory_working_set_mib"

# Spans
SPAN_GYM_ROLLOUT = "gym.rollout"
SPAN_GYM_SANDBOX_EXEC = "gym.sandbox.exec"
SPAN_GYM_SANDBOX_REQUEST = "gym.sandbox.request"
SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION = "gym.sandbox.resource.allocation"
SPAN_GYM_SANDBOX_RESOURCE_SAMPLE = "gym.sandbox.resource.sample"
SPAN_GYM_SANDBOX_RESOURCE_SUMMARY = "gym.sandbox.resource.summary"
SPAN_GYM_SANDBOX_START = "gym.sandbox.start"
SPAN_GYM_SANDBOX_STOP = "gym.sandbox.stop"

# Metrics
METRIC_GYM_SANDBOX_CPU_COUNT = "gym.sandbox.cpu_count"
METRIC_GYM_SANDBOX_CPU_TIME = "gym.sandbox.cpu_time"
METRIC_GYM_SANDBOX_CPU_USED_CORES = "gym.sandbox.cpu_used_cores"
METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE = "gym.sandbox.cpu_used_percentage"
METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB = "gym.sandbox.memory_total_mib"
METRIC_GYM_SANDBOX_MEMORY_USED_MIB = "gym.sandbox.memory_used_mib"
METRIC_GYM_SANDBOX_MEMORY_WORKING_SET_MIB = "gym.sandbox.memory_working_set_mib"
METRIC_GYM_SANDBOX_OOM_KILLS = "gym.sandbox.oom_kills"
METRIC_SANDGAUGE_POLLER_CONFLICTS = "sandgauge.poller.conflicts"
METRIC_SANDGAUGE_POLLER_DISCOVERY_LAG = "sandgauge.poller.discovery.lag"
METRIC_SANDGAUGE_POLLER_EXPORT_ITEMS = "sandgauge.poller.export.items"
METRIC_SANDGAUGE_POLLER_INTERVAL_EFFECTIVE = "sandgauge.poller.interval.effective"
METRIC_SANDGAUGE_POLLER_LEAKS = "sandgauge.poller.leaks"
METRIC_SANDGAUGE_POLLER_OUTBOX_AGE = "sandgauge.poller.outbox.age"
METRIC_SANDGAUGE_POLLER_OUTBOX_SIZE = "sandgauge.poller.outbox.size"
METRIC_SANDGAUGE_POLLER_POINTS_LEFT_OUT = "sandgauge.poller.points.left_out"
METRIC_SANDGAUGE_POLLER_POINTS_RESTAMPED = "sandgauge.poller.points.restamped"
METRIC_SANDGAUGE_POLLER_READ_DURATION = "sandgauge.poller.read.duration"
METRIC_SANDGAUGE_POLLER_READ_LATENESS = "sandgauge.poller.read.lateness"
METRIC_SANDGAUGE_POLLER_READ_WAIT = "sandgauge.poller.read.wait"
METRIC_SANDGAUGE_POLLER_READS = "sandgauge.poller.reads"
METRIC_SANDGAUGE_POLLER_SANDBOXES = "sandgauge.poller.sandboxes"
METRIC_SANDGAUGE_POLLER_SPANS = "sandgauge.poller.spans"

# UCUM unit of each metric
METRIC_UNITS = {
    METRIC_GYM_SANDBOX_CPU_COUNT: "{cpu}",
    METRIC_GYM_SANDBOX_CPU_TIME: "s",
    METRIC_GYM_SANDBOX_CPU_USED_CORES: "{cpu}",
    METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE: "%",
    METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB: "MiBy",
    METRIC_GYM_SANDBOX_MEMORY_USED_MIB: "MiBy",
    METRIC_GYM_SANDBOX_MEMORY_WORKING_SET_MIB: "MiBy",
    METRIC_GYM_SANDBOX_OOM_KILLS: "{kill}",
    METRIC_SANDGAUGE_POLLER_CONFLICTS: "{conflict}",
    METRIC_SANDGAUGE_POLLER_DISCOVERY_LAG: "s",
    METRIC_SANDGAUGE_POLLER_EXPORT_ITEMS: "{item}",
    METRIC_SANDGAUGE_POLLER_INTERVAL_EFFECTIVE: "s",
    METRIC_SANDGAUGE_POLLER_LEAKS: "{sandbox}",
    METRIC_SANDGAUGE_POLLER_OUTBOX_AGE: "s",
    METRIC_SANDGAUGE_POLLER_OUTBOX_SIZE: "By",
    METRIC_SANDGAUGE_POLLER_POINTS_LEFT_OUT: "{point}",
    METRIC_SANDGAUGE_POLLER_POINTS_RESTAMPED: "{point}",
    METRIC_SANDGAUGE_POLLER_READ_DURATION: "s",
    METRIC_SANDGAUGE_POLLER_READ_LATENESS: "s",
    METRIC_SANDGAUGE_POLLER_READ_WAIT: "s",
    METRIC_SANDGAUGE_POLLER_READS: "{read}",
    METRIC_SANDGAUGE_POLLER_SANDBOXES: "{sandbox}",
    METRIC_SANDGAUGE_POLLER_SPANS: "{span}",
}

# Values of service.name
SANDGAUGE_POLLER_SERVICE_NAME = "sandgauge-poller"


class AllocationNote(StrEnum):
    """Why the values are not all in force, or not exact."""

    RESIZE_PENDING = "resize_pending"
    RESIZE_INFEASIBLE = "resize_infeasible"
    RESIZE_IN_PROGRESS = "resize_in_progress"
    ROUNDED = "rounded"
    UNREADABLE_QUANTITY = "unreadable_quantity"


class ConflictKind(StrEnum):
    """What lifecycle spans contradict each other about."""

    ROLLOUT = "rollout"
    ATTRIBUTE = "attribute"


class DesignatorKind(StrEnum):
    """The format of the infrastructure identity."""

    KUBERNETES = "kubernetes"
    DOCKER_CONTAINER = "docker-container"
    ECS_TASK = "ecs-task"
    PROVIDER_SANDBOX = "provider-sandbox"


class EndReason(StrEnum):
    """What ended the sandbox."""

    STOPPED = "stopped"
    GONE = "gone"
    EXPIRED = "expired"
    TERMINATED = "terminated"
    FAILED = "failed"


class ErrorType(StrEnum):
    """Why there is no usable reading.

    A closed list on the poller's records.
    """

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    HTTP_ERROR = "http_error"
    REDIRECT = "redirect"
    BODY_TOO_LARGE = "body_too_large"
    UNRECOGNIZED_FORMAT = "unrecognized_format"
    NO_SUPPORTED_QUANTITY = "no_supported_quantity"
    INVALID_VALUE = "invalid_value"
    NO_READING = "no_reading"
    ENDPOINT_NOT_ALLOWED = "endpoint_not_allowed"
    PAUSED = "paused"
    ENDED = "ended"


class ExportOutcome(StrEnum):
    """How far an item came on its way out."""

    PRODUCED = "produced"
    DELIVERED = "delivered"
    REJECTED = "rejected"
    DROPPED = "dropped"


class HostKind(StrEnum):
    """The format of the host identity."""

    KUBERNETES_NODE = "kubernetes-node"
    DOCKER_HOST = "docker-host"


class LeftOutReason(StrEnum):
    """Why a data point is not sent."""

    ORDER = "order"
    AGE = "age"


class ReadKind(StrEnum):
    """What is read."""

    ALLOCATION = "allocation"
    SAMPLE = "sample"
    USAGE = "usage"
    STATUS = "status"


class ReadOutcome(StrEnum):
    """How a read went."""

    OK = "ok"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    HTTP_ERROR = "http_error"
    REDIRECT = "redirect"
    BODY_TOO_LARGE = "body_too_large"
    UNRECOGNIZED_FORMAT = "unrecognized_format"
    NO_SUPPORTED_QUANTITY = "no_supported_quantity"
    INVALID_VALUE = "invalid_value"
    NO_READING = "no_reading"
    ENDPOINT_NOT_ALLOWED = "endpoint_not_allowed"
    PAUSED = "paused"
    ENDED = "ended"


class Resource(StrEnum):
    """What a sandbox can be given.

    Kubernetes quantities are read exactly and converted at the last step; an unknown vendor resource maps to none
    of these.
    """

    CPU = "cpu"
    MEMORY_MIB = "memory_mib"
    DISK_GIB = "disk_gib"
    GPU = "gpu"
    GPU_TYPE = "gpu_type"


class ResourceSource(StrEnum):
    """The source that was read.

    Provenance, not an address.
    """

    OPENSANDBOX_INSPECT = "opensandbox.inspect"
    OPENSANDBOX_INSPECT_DOCKER = "opensandbox.inspect/docker"
    OPENSANDBOX_INSPECT_KUBERNETES = "opensandbox.inspect/kubernetes"
    OPENSANDBOX_INSPECT_FAST_SANDBOX = "opensandbox.inspect/fast-sandbox"
    OPENSANDBOX_EXECD = "opensandbox.execd"
    DOCKER_INSPECT = "docker.inspect"
    DOCKER_STATS = "docker.stats"
    KUBERNETES_METRICS = "kubernetes.metrics"


class ResourceStatus(StrEnum):
    """Whether the reading holds quantities.

    A failed reading is a record too, and never borrows numbers from another quantity.
    """

    OK = "ok"
    UNAVAILABLE = "unavailable"


class SampleScope(StrEnum):
    """Scope of the quantity that a data point holds."""

    SANDBOX = "sandbox"
    NODE = "node"
    UNKNOWN = "unknown"


class SandboxState(StrEnum):
    """How the poller treats the sandbox at present."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDING = "ending"
    UNMATCHED = "unmatched"
    NOT_READ = "not_read"


class ScopeEvidence(StrEnum):
    """The rule that decided the scope of the CPU numbers."""

    SOURCE = "source"
    TOTAL_EXCEEDS_LIMIT = "total_exceeds_limit"
    SHARED_TOTAL = "shared_total"
    TOTAL_MATCHES_LIMIT = "total_matches_limit"
    CONSTANT_ZERO = "constant_zero"
    NO_LIMIT = "no_limit"
    UNDECIDED = "undecided"


class Signal(StrEnum):
    """The OTLP signal."""

    TRACES = "traces"
    METRICS = "metrics"


class SpanOutcome(StrEnum):
    """What became of a span at the ingest port."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    IGNORED = "ignored"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"


class SpanReason(StrEnum):
    """Why a span is no lifecycle event, or what is odd about one that is."""

    OTHER_SPAN = "other_span"
    OWN_SPAN = "own_span"
    NOT_CREATED = "not_created"
    NO_ROLLOUT_ID = "no_rollout_id"
    NO_SANDBOX_ID = "no_sandbox_id"
    BAD_SPAN_IDS = "bad_span_ids"
    BAD_SANDBOX_ID = "bad_sandbox_id"
    NO_REQUEST_ID = "no_request_id"
    TOO_LARGE = "too_large"
    CAPACITY = "capacity"
    UNDECODABLE = "undecodable"
    TOO_MANY_ITEMS = "too_many_items"
    UNFORESEEN_ERROR = "unforeseen_error"
    ODD_TIME = "odd_time"


class Statistic(StrEnum):
    """How the readings of a sandbox are condensed in its summary."""

    MIN = "min"
    MEAN = "mean"
    MAX = "max"
    LAST = "last"


def allocation_component_name(index: int) -> str:
    """Return the key `nemo.gym.sandbox.allocation.component.<index>.name`."""
    return f"nemo.gym.sandbox.allocation.component.{index}.name"


def allocation_component_requests_prefix(index: int) -> str:
    """Return the prefix of the resource keys `nemo.gym.sandbox.allocation.component.<index>.requests`."""
    return f"nemo.gym.sandbox.allocation.component.{index}.requests"


def allocation_component_limits_prefix(index: int) -> str:
    """Return the prefix of the resource keys `nemo.gym.sandbox.allocation.component.<index>.limits`."""
    return f"nemo.gym.sandbox.allocation.component.{index}.limits"


def requested_sidecar_name(index: int) -> str:
    """Return the key `nemo.gym.sandbox.requested.sidecar.<index>.name`."""
    return f"nemo.gym.sandbox.requested.sidecar.{index}.name"


def requested_sidecar_prefix(index: int) -> str:
    """Return the prefix of the resource keys `nemo.gym.sandbox.requested.sidecar.<index>`."""
    return f"nemo.gym.sandbox.requested.sidecar.{index}"
