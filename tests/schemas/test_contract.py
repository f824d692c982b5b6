"""The telemetry contract once more, by hand: what users of the telemetry may rely on, with types and units."""

import pytest

from telemetry_registry import Usage, load_registry

REGISTRY = load_registry()

SANDBOX = "nemo.gym.sandbox."
RUN, ROLLOUT = "nemo.run.id", "nemo.gym.rollout.id"
JOIN_KEYS = {RUN, ROLLOUT, f"{SANDBOX}request.id", f"{SANDBOX}id", f"{SANDBOX}provider"}
DECLARED = {"cpu": "double", "memory_mib": "int", "disk_gib": "int", "gpu": "int", "gpu_type": "string"}
OBSERVED = {"cpu": "double", "memory_mib": "double", "disk_gib": "double", "gpu": "int", "gpu_type": "string"}
STATISTICS = ("min", "mean", "max", "last")


def below(prefix: str, keys: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}{key}": kind for key, kind in keys.items()}


REQUESTED = below(
    f"{SANDBOX}requested.",
    {"count": "int", "sidecar_count": "int", **DECLARED, "sidecar.<i>.name": "string"}
    | below("sidecar.<i>.", DECLARED),
)
SUBMITTED = below(
    f"{SANDBOX}submitted.", {"sdk_default": "boolean"} | below("requests.", OBSERVED) | below("limits.", OBSERVED)
)
PLACEMENT = {f"{of}.{key}": "string" for of in ("designator", "host") for key in ("kind", "scope", "id")}
ALLOCATION = below(
    f"{SANDBOX}allocation.",
    {"component_count": "int", "note": "string[]", "component.<i>.name": "string"}
    | below("component.<i>.requests.", OBSERVED)
    | below("component.<i>.limits.", OBSERVED)
    | PLACEMENT,
)
READING = {f"{SANDBOX}resource.status": "string", f"{SANDBOX}resource.source": "string", "error.type": "string"}
SAMPLE = below(
    f"{SANDBOX}sample.",
    {
        "timestamp_ms": "int",
        "cpu_count": "double",
        "cpu_used_percentage": "double",
        "memory_total_mib": "double",
        "memory_used_mib": "double",
        "final": "boolean",
        "cpu_scope": "string",
        "memory_scope": "string",
        "cpu_scope_evidence": "string",
        "memory_scope_evidence": "string",
        "cpu_used_cores": "double",
        "window_s": "double",
        "cpu_time_s": "double",
        "memory_working_set_mib": "double",
        "cpu_throttled_s": "double",
        "oom_kills": "int",
    },
)
CONDENSED = (
    "cpu_used_percentage",
    "memory_used_mib",
    "memory_total_mib",
    "cpu_count",
    "cpu_used_cores",
    "memory_working_set_mib",
)
SUMMARY = below(
    SANDBOX,
    {
        "end.reason": "string",
        "end.oom_killed": "boolean",
        "leaked": "boolean",
        "lifetime_s": "double",
        "readings.count": "int",
        "readings.missed": "int",
        "readings.effective_interval_s": "double",
        "summary.cpu_scope": "string",
        "summary.memory_scope": "string",
        "summary.cpu_time_s": "double",
        "summary.oom_kills": "int",
        "summary.usage_source": "string",
        "summary.resets": "int",
    }
    | {f"summary.{quantity}.{statistic}": "double" for quantity in CONDENSED for statistic in STATISTICS},
)
JOINED_BY = dict.fromkeys(JOIN_KEYS, "string")
WITHOUT_ID = dict.fromkeys(JOIN_KEYS - {f"{SANDBOX}id"}, "string")

SPANS = {
    "gym.sandbox.request": WITHOUT_ID
    | REQUESTED
    | below(SANDBOX, {"collection.id": "string", "service.name": "string"}),
    "gym.sandbox.start": JOINED_BY | SUBMITTED | below(SANDBOX, {"scope": "string", "sample_interval_s": "double"}),
    "gym.sandbox.stop": JOINED_BY,
    "gym.sandbox.exec": JOINED_BY | below(SANDBOX, {"return_code": "int", "error_type": "string"}),
    "gym.rollout": {RUN: "string", ROLLOUT: "string", "nemo.gym.server.name": "string"},
    "gym.sandbox.resource.allocation": JOINED_BY | READING | ALLOCATION,
    "gym.sandbox.resource.sample": JOINED_BY | READING | SAMPLE,
    "gym.sandbox.resource.summary": JOINED_BY | SUMMARY | REQUESTED | SUBMITTED | ALLOCATION,
}

SERIES = JOIN_KEYS | {f"{SANDBOX}sample.scope"}
POLLER = "sandgauge.poller."
METRICS = {
    "gym.sandbox.cpu_count": ("gauge", "{cpu}", SERIES),
    "gym.sandbox.cpu_used_percentage": ("gauge", "%", SERIES),
    "gym.sandbox.memory_total_mib": ("gauge", "MiBy", SERIES),
    "gym.sandbox.memory_used_mib": ("gauge", "MiBy", SERIES),
    "gym.sandbox.cpu_used_cores": ("gauge", "{cpu}", SERIES),
    "gym.sandbox.memory_working_set_mib": ("gauge", "MiBy", SERIES),
    "gym.sandbox.cpu_time": ("counter", "s", SERIES),
    "gym.sandbox.oom_kills": ("counter", "{kill}", SERIES),
    f"{POLLER}sandboxes": ("updowncounter", "{sandbox}", {"deployment", "state"}),
    f"{POLLER}leaks": ("updowncounter", "{sandbox}", {"deployment"}),
    f"{POLLER}reads": ("counter", "{read}", {"deployment", "kind", "outcome"}),
    f"{POLLER}read.duration": ("histogram", "s", {"deployment", "kind"}),
    f"{POLLER}read.wait": ("histogram", "s", {"deployment", "kind"}),
    f"{POLLER}read.lateness": ("histogram", "s", {"deployment"}),
    f"{POLLER}interval.effective": ("gauge", "s", {"deployment"}),
    f"{POLLER}discovery.lag": ("histogram", "s", {"deployment"}),
    f"{POLLER}spans": ("counter", "{span}", {"outcome", "reason"}),
    f"{POLLER}points.left_out": ("counter", "{point}", {"reason"}),
    f"{POLLER}points.restamped": ("counter", "{point}", {"deployment"}),
    f"{POLLER}conflicts": ("counter", "{conflict}", {"kind"}),
    f"{POLLER}outbox.size": ("gauge", "By", {"signal"}),
    f"{POLLER}outbox.age": ("gauge", "s", {"signal"}),
    f"{POLLER}export.items": ("counter", "{item}", {"signal", "outcome"}),
}

ERROR_TYPES = {
    "timeout",
    "connection",
    "unauthorized",
    "not_found",
    "http_error",
    "redirect",
    "body_too_large",
    "unrecognized_format",
    "no_supported_quantity",
    "invalid_value",
    "no_reading",
    "endpoint_not_allowed",
    "paused",
    "ended",
}
ENUMS = {
    "ErrorType": ERROR_TYPES,
    "ResourceStatus": {"ok", "unavailable"},
    "ResourceSource": {
        "opensandbox.inspect",
        "opensandbox.inspect/docker",
        "opensandbox.inspect/kubernetes",
        "opensandbox.inspect/fast-sandbox",
        "opensandbox.execd",
        "docker.inspect",
        "docker.stats",
        "kubernetes.metrics",
    },
    "AllocationNote": {"resize_pending", "resize_infeasible", "resize_in_progress", "rounded", "unreadable_quantity"},
    "DesignatorKind": {"kubernetes", "docker-container", "ecs-task", "provider-sandbox"},
    "HostKind": {"kubernetes-node", "docker-host"},
    "SampleScope": {"sandbox", "node", "unknown"},
    "ScopeEvidence": {
        "source",
        "total_exceeds_limit",
        "shared_total",
        "total_matches_limit",
        "constant_zero",
        "no_limit",
        "undecided",
    },
    "EndReason": {"stopped", "gone", "expired", "terminated", "failed"},
    "SandboxState": {"active", "paused", "ending", "unmatched", "not_read"},
    "ReadKind": {"allocation", "sample", "usage", "status"},
    "ReadOutcome": ERROR_TYPES | {"ok"},
    "SpanOutcome": {"accepted", "repeated", "ignored", "rejected", "quarantined"},
    "SpanReason": {
        "other_span",
        "own_span",
        "not_created",
        "no_rollout_id",
        "no_sandbox_id",
        "bad_span_ids",
        "bad_sandbox_id",
        "no_request_id",
        "too_large",
        "capacity",
        "undecodable",
        "too_many_items",
        "unforeseen_error",
        "odd_time",
    },
    "LeftOutReason": {"order", "age"},
    "ExportOutcome": {"produced", "delivered", "rejected", "dropped"},
    "ConflictKind": {"rollout", "attribute"},
    "Signal": {"traces", "metrics"},
}

CLOSED = {
    ("gym.sandbox.resource.allocation", "error.type"): "ErrorType",
    ("gym.sandbox.resource.sample", "error.type"): "ErrorType",
    ("gym.sandbox.resource.allocation", f"{SANDBOX}resource.status"): "ResourceStatus",
    ("gym.sandbox.resource.allocation", f"{SANDBOX}resource.source"): "ResourceSource",
    ("gym.sandbox.resource.allocation", f"{SANDBOX}allocation.note"): "AllocationNote",
    ("gym.sandbox.resource.allocation", f"{SANDBOX}allocation.designator.kind"): "DesignatorKind",
    ("gym.sandbox.resource.allocation", f"{SANDBOX}allocation.host.kind"): "HostKind",
    ("gym.sandbox.resource.sample", f"{SANDBOX}sample.cpu_scope"): "SampleScope",
    ("gym.sandbox.resource.sample", f"{SANDBOX}sample.memory_scope"): "SampleScope",
    ("gym.sandbox.resource.sample", f"{SANDBOX}sample.cpu_scope_evidence"): "ScopeEvidence",
    ("gym.sandbox.resource.sample", f"{SANDBOX}sample.memory_scope_evidence"): "ScopeEvidence",
    ("gym.sandbox.resource.summary", f"{SANDBOX}end.reason"): "EndReason",
    ("gym.sandbox.resource.summary", f"{SANDBOX}summary.cpu_scope"): "SampleScope",
    ("gym.sandbox.resource.summary", f"{SANDBOX}summary.memory_scope"): "SampleScope",
    ("gym.sandbox.cpu_count", f"{SANDBOX}sample.scope"): "SampleScope",
    (f"{POLLER}sandboxes", "state"): "SandboxState",
    (f"{POLLER}reads", "kind"): "ReadKind",
    (f"{POLLER}reads", "outcome"): "ReadOutcome",
    (f"{POLLER}read.duration", "kind"): "ReadKind",
    (f"{POLLER}read.wait", "kind"): "ReadKind",
    (f"{POLLER}spans", "outcome"): "SpanOutcome",
    (f"{POLLER}spans", "reason"): "SpanReason",
    (f"{POLLER}points.left_out", "reason"): "LeftOutReason",
    (f"{POLLER}conflicts", "kind"): "ConflictKind",
    (f"{POLLER}outbox.size", "signal"): "Signal",
    (f"{POLLER}export.items", "outcome"): "ExportOutcome",
}


def exact_keys(usages: tuple[Usage, ...]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for usage in usages:
        attribute = usage.attribute
        indexed = {f"{attribute.name}.<i>.{suffix}": kind for suffix, kind in attribute.suffixes.items()}
        keys |= indexed or {attribute.name: attribute.type}
    return keys


def test_every_span_is_registered_and_no_other() -> None:
    assert REGISTRY.spans.keys() == SPANS.keys()


@pytest.mark.parametrize("name", SPANS)
def test_a_span_has_just_these_attributes_with_these_types(name: str) -> None:
    assert exact_keys(REGISTRY.spans[name].usages) == SPANS[name]


def test_every_metric_is_registered_and_no_other() -> None:
    assert REGISTRY.metrics.keys() == METRICS.keys()


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_this_kind_unit_and_labels(name: str) -> None:
    metric = REGISTRY.metrics[name]
    labels = exact_keys(metric.usages)
    assert (metric.instrument, metric.unit, labels.keys()) == METRICS[name]
    assert set(labels.values()) == {"string"}


@pytest.mark.parametrize("name", ENUMS)
def test_an_enum_has_just_these_values(name: str) -> None:
    assert set(REGISTRY.enums[name].values) == ENUMS[name]


def test_there_is_no_other_enum() -> None:
    assert REGISTRY.enums.keys() == ENUMS.keys()


@pytest.mark.parametrize(("group", "key"), CLOSED)
def test_an_attribute_takes_just_the_values_of_its_enum(group: str, key: str) -> None:
    usages = (REGISTRY.spans.get(group) or REGISTRY.metrics[group]).usages
    usage = next(usage for usage in usages if usage.attribute.name == key)
    assert usage.enum == CLOSED[group, key]
    assert set(usage.values or ()) == ENUMS[CLOSED[group, key]]


def test_the_words_that_end_keys() -> None:
    assert set(REGISTRY.vocabularies["Resource"].values) == OBSERVED.keys()
    assert REGISTRY.vocabularies["Statistic"].values == STATISTICS


def test_the_joined_file_and_the_processes() -> None:
    helpers = {"otel.trace_id", "sandgauge.trace_group"}
    assert {REGISTRY.attributes[key].type for key in helpers} == {"string"}
    assert REGISTRY.service_names["sandgauge.poller"] == "sandgauge-poller"
    assert exact_keys(REGISTRY.entities["sandgauge.poller"]).keys() == {
        "service.name",
        "service.version",
        "service.instance.id",
    }
