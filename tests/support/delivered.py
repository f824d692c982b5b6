"""What a receiver must have got in the end, whatever happened to the poller on the way."""

from collections import defaultdict

from sandgauge_schemas import names
from support.otlp_proto import SeenPoint
from support.otlp_sink import OtlpSink

GAUGES = frozenset(
    {
        names.METRIC_GYM_SANDBOX_CPU_COUNT,
        names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE,
        names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB,
        names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB,
    }
)


def ids_in(sink: OtlpSink, span_name: str) -> set[str]:
    """Return the sandboxes of which a span of that name came."""
    return {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in sink.spans(span_name)}


def closing_points(sink: OtlpSink) -> list[SeenPoint]:
    """Return the points by which the gauges' series were closed."""
    return [point for point in sink.points() if point.name in GAUGES and point.value is None]


def assert_one_form_of_each_span(sink: OtlpSink) -> None:
    """Fail where a span came twice with different bytes; a resend of the same is none."""
    forms = defaultdict(set)
    for request in sink.requests():
        for resource in getattr(request.message, "resource_spans", ()):
            for scope in resource.scope_spans:
                for span in scope.spans:
                    forms[span.trace_id, span.span_id].add(span.SerializeToString(deterministic=True))
    assert forms
    assert {len(found) for found in forms.values()} == {1}


def assert_series_rise_and_close_once(sink: OtlpSink) -> set[str]:
    """Fail where a time has two values or a series has not exactly one end, its last point; return whose they are."""
    series: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, float | None]] = defaultdict(dict)
    for point in sink.points():
        if names.NEMO_GYM_SANDBOX_ID in point.attributes:
            known = series[point.name, tuple(sorted(point.attributes.items()))]
            assert known.setdefault(point.time_ns, point.value) == point.value
    for points in series.values():
        assert [time for time, value in points.items() if value is None] == [max(points)]
    return {dict(attributes)[names.NEMO_GYM_SANDBOX_ID] for _, attributes in series}
