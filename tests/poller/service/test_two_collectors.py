"""Two Collectors that send the same spans, in orders of their own and again, to a poller that dies meanwhile."""

import random
import secrets
import threading
import time

import pytest
import requests

from sandgauge_schemas import names
from support.delivered import assert_one_form_of_each_span, assert_series_rise_and_close_once, ids_in
from support.feed import feed, rollout_span, start_span, stop_span

pytestmark = pytest.mark.load

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
KILLS = 3


def send_all(endpoint, spans, order):
    """Send every span at least once, in batches, each until it is acknowledged."""
    spans = [*spans, *order.sample(spans, len(spans) // 3)]
    order.shuffle(spans)
    while spans:
        batch = [spans.pop() for _ in range(min(len(spans), order.randint(1, 4)))]
        while True:
            try:
                feed(endpoint, *batch)
                break
            except requests.RequestException:
                time.sleep(0.05)
        time.sleep(0.02)  # spread over the deaths of the poller


def test_each_sandbox_lives_and_ends_once(osb, make_poller, otlp_sink):
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    order = random.Random(seed)
    sandbox_ids = [osb.create(limits={"cpu": "500m", "memory": "128Mi"}) for _ in range(60)]
    ended, living = set(sandbox_ids[:30]), set(sandbox_ids[30:])
    traces = {sandbox_id: secrets.token_hex(16) for sandbox_id in sandbox_ids}
    spans = [
        start_span(sandbox_id, trace_id=trace, parent=secrets.token_hex(8)) for sandbox_id, trace in traces.items()
    ]
    spans += [stop_span(sandbox_id, trace_id=traces[sandbox_id]) for sandbox_id in ended]
    spans += [rollout_span(trace, f"rollout-{sandbox_id}") for sandbox_id, trace in traces.items()]
    for sandbox_id in ended:
        osb.delete(sandbox_id)
    poller = make_poller()
    poller.start()
    senders = [
        threading.Thread(target=send_all, args=(poller.endpoint, spans, random.Random(seed + number)))
        for number in range(2)
    ]
    for sender in senders:
        sender.start()
    for _ in range(KILLS):
        time.sleep(order.uniform(0.1, 0.5))
        poller.kill()
        poller.start()
    for sender in senders:
        sender.join(60)
        assert not sender.is_alive()
    otlp_sink.wait_for(lambda sink: ids_in(sink, SUMMARY) == ended)
    # The whole set of spans again, and one more death: nothing of it is news.
    send_all(poller.endpoint, spans, order)
    poller.kill()
    poller.start()
    restarted_ns = time.time_ns()

    def read_since(sink):
        seen = [span for span in sink.spans(SAMPLE) if span.start_ns >= restarted_ns]
        return {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in seen}

    otlp_sink.wait_for(lambda sink: read_since(sink) >= living)
    for sandbox_id in living:
        osb.delete(sandbox_id)
    feed(poller.endpoint, *(stop_span(sandbox_id, trace_id=traces[sandbox_id]) for sandbox_id in living))
    otlp_sink.wait_for(lambda sink: ids_in(sink, SUMMARY) == ended | living)
    assert poller.stop() == 0
    assert read_since(otlp_sink) == living
    summaries = otlp_sink.spans(SUMMARY)
    assert len({(span.trace_id, span.span_id) for span in summaries}) == len(sandbox_ids)
    assert {span.attributes[names.NEMO_GYM_ROLLOUT_ID] for span in summaries} == {
        f"rollout-{sandbox_id}" for sandbox_id in sandbox_ids
    }
    assert_one_form_of_each_span(otlp_sink)
    assert assert_series_rise_and_close_once(otlp_sink) >= living
