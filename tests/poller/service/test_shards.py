"""Several pollers in processes of their own, each with a share of the sandboxes and all with the whole feed."""

import secrets
import time
from contextlib import ExitStack

import pytest

from sandgauge_poller.tracking.ownership import owns_shard
from sandgauge_schemas import names
from support.delivered import assert_one_form_of_each_span
from support.feed import feed, rollout_span, start_span, stop_span
from support.running_poller import RunningPoller

pytestmark = pytest.mark.load

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
LIMITS = {"cpu": "500m", "memory": "128Mi"}


class Shard:
    """One poller, and the receiver of what it alone has to say."""

    def __init__(self, folder, index, osb_url, sink):
        self.index, self.sink = index, sink
        self.poller = RunningPoller(folder)
        self._osb_url = osb_url

    def of(self, count):
        """Start it, again if need be, as one of so many."""
        self.poller.stop()
        self.poller.configure(
            {
                "ingest": {
                    "endpoint": self.poller.endpoint.removeprefix("http://"),
                    "shard": f"poller-{self.index}/{count}",
                },
                "deployments": [{"name": "training", "endpoint": self._osb_url}],
                "sampling": {"collection_interval": "1s", "min_interval": "500ms"},
                "tracking": {"orphan_grace": "2s"},
                "export": {"endpoint": self.sink.endpoint},
            }
        )
        self.poller.start()

    def read_since(self, time_ns):
        spans = self.sink.spans(SAMPLE)
        return {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in spans if span.start_ns >= time_ns}

    def wait_until_it_reads(self, sandbox_ids):
        since_ns = time.time_ns()
        self.sink.wait_for(lambda _: self.read_since(since_ns) >= sandbox_ids)
        assert self.read_since(since_ns) == sandbox_ids

    def summaries(self):
        spans = self.sink.spans(SUMMARY)
        return {span.attributes[names.NEMO_GYM_SANDBOX_ID]: span.attributes for span in spans}


class Fleet:
    """Sandboxes whose spans every poller gets, as from a Collector with an exporter for each."""

    def __init__(self, osb, shards):
        self._osb, self._shards = osb, shards
        self.traces = {}

    def create(self, count):
        new = {self._osb.create(limits=LIMITS): secrets.token_hex(16) for _ in range(count)}
        self.traces |= new
        parent = secrets.token_hex(8)
        self.tell(*(start_span(sandbox_id, trace_id=trace, parent=parent) for sandbox_id, trace in new.items()))

    def stop(self, sandbox_ids):
        for sandbox_id in sandbox_ids:
            self._osb.delete(sandbox_id)
        self.tell(*(stop_span(sandbox_id, trace_id=self.traces[sandbox_id]) for sandbox_id in sandbox_ids))

    def finish_rollouts(self, sandbox_ids):
        self.tell(*(rollout_span(self.traces[sandbox_id], f"of-{sandbox_id}") for sandbox_id in sandbox_ids))

    def tell(self, *spans):
        for shard in self._shards:
            feed(shard.poller.endpoint, *spans)

    def of(self, index, count):
        return {sandbox_id for sandbox_id in self.traces if owns_shard(index, count)(sandbox_id)}


def own_points(sink):
    """Return what a poller said about itself."""
    return [point for point in sink.points() if names.NEMO_GYM_SANDBOX_ID not in point.attributes]


@pytest.fixture
def shards(tmp_path, osb, make_otlp_sink):
    with ExitStack() as stack:
        shards = [Shard(tmp_path / str(index), index, osb.url, make_otlp_sink()) for index in range(3)]
        for shard in shards:
            stack.callback(shard.poller.stop)
        yield shards
    for shard in shards:
        assert shard.poller.complaints() == []


def test_each_sandbox_has_one_reader_whoever_dies_and_however_many_there_are(osb, shards):
    zero, one, two = shards
    for shard in shards:
        shard.of(2)  # the third stands by
    fleet = Fleet(osb, shards)
    fleet.create(36)
    zero.wait_until_it_reads(fleet.of(0, 2))
    one.wait_until_it_reads(fleet.of(1, 2))

    # One dies: the other reads its own and nothing else, and the dead one's wait for its return.
    zero.poller.kill()
    one.wait_until_it_reads(fleet.of(1, 2))
    zero.of(2)
    zero.wait_until_it_reads(fleet.of(0, 2))
    assert two.sink.spans() == []

    # What is over, and waits for its rollout, stays with whoever read it.
    stopped = min(fleet.of(2, 3))
    fleet.stop([stopped])
    former = zero if stopped in fleet.of(0, 2) else one

    # A rolling restart with another count: the third takes over what is its, and knows it from its own folder.
    for shard in (two, one, zero):
        shard.of(3)
    for shard in shards:
        shard.wait_until_it_reads(fleet.of(shard.index, 3) - {stopped})
    fleet.finish_rollouts([stopped])
    former.sink.wait_for(lambda _: stopped in former.summaries())

    living = set(fleet.traces) - {stopped}
    fleet.stop(living)
    fleet.finish_rollouts(living)
    for shard in shards:
        expected = fleet.of(shard.index, 3) - {stopped}
        shard.sink.wait_for(lambda _, shard=shard, expected=expected: set(shard.summaries()) >= expected)
    for shard in shards:
        assert shard.poller.stop() == 0
    told = [sandbox_id for shard in shards for sandbox_id in shard.summaries()]
    assert sorted(told) == sorted(fleet.traces)
    for shard in shards:
        assert all(summary[names.NEMO_GYM_SANDBOX_READINGS_COUNT] > 0 for summary in shard.summaries().values())
        assert_one_form_of_each_span(shard.sink)
        instances = {point.resource.get(names.SERVICE_INSTANCE_ID) for point in own_points(shard.sink)}
        assert instances == {f"shard-{shard.index}"}
