"""What is kept of readings in passing: their numbers, their failures, and that they go on to the recorder."""

import pytest

from sandgauge_poller.reading.provider import ReadWindow, SampleReading, Usage
from sandgauge_poller.reading.usage.source import UsageAnswer, UsageObservation
from sandgauge_poller.status.watch import WatchedRecorder
from sandgauge_poller.tracking.recent import minute_of
from sandgauge_schemas import names
from sandgauge_schemas.names import ErrorType, ResourceSource
from support.tracked_sandbox import NOW_NS, tracked

MINUTE = minute_of(NOW_NS)
WINDOW = ReadWindow(NOW_NS - 10**9, NOW_NS)


class Recorder:
    """Takes everything down, and the mean of a usage answer into the statistics."""

    def __init__(self, cores=None):
        self.cores = cores
        self.calls = []

    async def sample(self, sandbox, reading, missed, *, is_final):
        self.calls.append(("sample", missed, is_final))

    async def usage(self, sandbox, answer, kills, missed):
        self.calls.append(("usage", missed))
        if self.cores is not None:
            sandbox.progress.condense({names.METRIC_GYM_SANDBOX_CPU_USED_CORES: self.cores})

    async def ended(self, sandbox):
        self.calls.append("ended")

    async def summary(self, sandbox):
        self.calls.append("summary")

    async def changed(self, sandbox):
        self.calls.append("changed")

    async def allocation(self, sandbox, reading):
        self.calls.append("allocation")


def sample(error_type=None, **usage):
    numbers = Usage(**usage) if error_type is None else None
    return SampleReading(window=WINDOW, source=ResourceSource.OPENSANDBOX_EXECD, error_type=error_type, usage=numbers)


def answer(error_type=None, **observation):
    observed = UsageObservation(timestamp_ns=NOW_NS, **observation) if error_type is None else None
    return UsageAnswer(window=WINDOW, source=ResourceSource.DOCKER_STATS, error_type=error_type, observation=observed)


async def test_a_reading_is_kept_and_recorded():
    recorder, sandbox = Recorder(), tracked()
    watched = WatchedRecorder(recorder)
    await watched.sample(sandbox, sample(cpu_used_percentage=12.0, memory_used_mib=300.0), 2, is_final=False)
    await watched.sample(sandbox, sample(cpu_used_percentage=7.0), 0, is_final=True)
    assert recorder.calls == [("sample", 2, False), ("sample", 0, True)]
    assert sandbox.recent.cpu_used_percentage.until(MINUTE) == [12.0]
    assert sandbox.recent.memory_used_mib.until(MINUTE) == [300.0]
    assert sandbox.recent.error_type is None
    assert watched.answered.until(MINUTE) == [2.0]


async def test_a_failed_reading_leaves_its_reason_and_no_number():
    sandbox, watched = tracked(), WatchedRecorder(Recorder())
    await watched.sample(sandbox, sample(ErrorType.TIMEOUT), 1, is_final=False)
    assert sandbox.recent.error_type is ErrorType.TIMEOUT
    assert sandbox.recent.cpu_used_percentage is None
    assert (watched.answered.until(MINUTE), watched.failed.until(MINUTE)) == ([], [1.0])
    await watched.sample(sandbox, sample(memory_used_mib=1.0), 0, is_final=False)
    assert sandbox.recent.error_type is None


async def test_usage_is_kept_with_the_mean_that_was_recorded_of_it():
    sandbox, watched = tracked(), WatchedRecorder(Recorder(cores=0.5))
    await watched.usage(sandbox, answer(memory_working_set_mib=80.0), None, 0)
    assert sandbox.recent.cpu_used_cores.until(MINUTE) == [0.5]
    assert sandbox.recent.memory_working_set_mib.until(MINUTE) == [80.0]


async def test_a_mean_of_before_is_not_kept_again():
    sandbox = tracked()
    await WatchedRecorder(Recorder(cores=0.5)).usage(sandbox, answer(), None, 0)
    sandbox.recent = None
    await WatchedRecorder(Recorder()).usage(sandbox, answer(memory_working_set_mib=1.0), None, 0)
    assert sandbox.recent.cpu_used_cores is None


async def test_usage_that_failed_leaves_its_reason():
    sandbox, watched = tracked(), WatchedRecorder(Recorder())
    await watched.usage(sandbox, answer(ErrorType.NOT_FOUND), None, 1)
    assert sandbox.recent.usage_error_type is ErrorType.NOT_FOUND
    assert sandbox.recent.error_type is None


@pytest.mark.parametrize("kind", ["ended", "summary", "changed"])
async def test_all_else_goes_on_as_it_came(kind):
    recorder, sandbox = Recorder(), tracked()
    await getattr(WatchedRecorder(recorder), kind)(sandbox)
    await WatchedRecorder(recorder).allocation(sandbox, None)
    assert recorder.calls == [kind, "allocation"]
    assert sandbox.recent is None
