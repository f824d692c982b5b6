"""kill -9 in the middle of a run: no sandbox forgotten, nothing sent twice with different bytes."""

from collections import defaultdict

from sandgauge_schemas import names
from support.feed import feed, start_span, stop_span

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
ALLOCATION = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION


def _read(seen, name):
    return {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in seen.spans(name)}


def test_the_active_set_and_the_outbox_survive(osb, make_poller, otlp_sink):
    limits = {"cpu": "500m", "memory": "128Mi"}
    sandbox_ids = {osb.create(limits=limits) for _ in range(20)}
    traces = {sandbox_id: f"{number:032x}" for number, sandbox_id in enumerate(sorted(sandbox_ids), start=1)}
    poller = make_poller()
    with poller:
        feed(poller.endpoint, *(start_span(id_, trace_id=trace) for id_, trace in traces.items()))
        otlp_sink.wait_for(lambda seen: _read(seen, SAMPLE) == sandbox_ids)
        for _ in range(3):
            # Killed just after spans came in: what was acknowledged is known, whatever was on its way.
            newcomer = osb.create(limits=limits)
            sandbox_ids.add(newcomer)
            feed(poller.endpoint, start_span(newcomer))
            poller.kill()
            before = len(otlp_sink.spans(SAMPLE))
            poller.start()
            otlp_sink.wait_for(
                lambda seen, before=before: (
                    {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in seen.spans(SAMPLE)[before:]} == sandbox_ids
                )
            )
        for sandbox_id in sandbox_ids:
            osb.delete(sandbox_id)
        feed(poller.endpoint, *(stop_span(id_) for id_ in sandbox_ids))
        otlp_sink.wait_for(lambda seen: _read(seen, SUMMARY) == sandbox_ids)
    _assert_no_two_forms_of_one_span(otlp_sink)
    summaries = {(span.trace_id, span.span_id) for span in otlp_sink.spans(SUMMARY)}
    assert len(summaries) == len(sandbox_ids)
    _assert_series_rise_and_close_once(otlp_sink, sandbox_ids)


def _assert_no_two_forms_of_one_span(sink):
    forms = defaultdict(set)
    for request in sink.requests():
        for resource in getattr(request.message, "resource_spans", ()):
            for scope in resource.scope_spans:
                for span in scope.spans:
                    forms[span.trace_id, span.span_id].add(span.SerializeToString(deterministic=True))
    assert forms
    assert {len(found) for found in forms.values()} == {1}


def _assert_series_rise_and_close_once(sink, sandbox_ids):
    series = defaultdict(dict)
    for point in sink.points():
        if names.NEMO_GYM_SANDBOX_ID in point.attributes:
            # A resend repeats a point; it never gives a time another value.
            known = series[point.name, tuple(sorted(point.attributes.items()))]
            assert known.setdefault(point.time_ns, point.value) == point.value
    live = defaultdict(int)
    for (name, attributes), points in series.items():
        assert [time for time, value in points.items() if value is None] == [max(points)]
        live[name, dict(attributes)[names.NEMO_GYM_SANDBOX_ID]] += 1
    assert len(live) == 4 * len(sandbox_ids)
