"""Records under which nothing runs any more: the proxy still forwards to where it was, so nothing is read there."""

from dataclasses import replace

import pytest

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.progress import dump_progress, load_progress
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.placement import Identity
from support.reading_doubles import LIMITED
from support.reading_world import world
from support.virtual_time import in_virtual_time

NOT_FOUND = ErrorType.NOT_FOUND
ON_A_POD = replace(LIMITED, designator=Identity("kubernetes", "http://osb", "namespaces/a/pods/b"))


def errors(w, since=0.0):
    return [entry.detail[0] for entry in w.sink.of("sample") if entry.at > since]


async def without_its_pod(w, seconds):
    """Let a pod be read, be gone and be missed, and time pass; whoever has its address now would answer."""
    w.provider["s-1"].in_force = ON_A_POD
    await w.live(25)
    w.provider["s-1"].allocation, w.provider["s-1"].sample = NOT_FOUND, ErrorType.CONNECTION
    await w.wait_for(lambda: errors(w)[-1] is ErrorType.CONNECTION)
    w.provider["s-1"].sample = None
    await w.until(seconds)


@in_virtual_time
async def test_once_a_reading_has_failed_and_the_pod_is_gone_nothing_is_read_at_its_address():
    async with world() as w:
        await without_its_pod(w, 200)
        failed_at = next(entry.at for entry in w.sink.of("sample") if entry.detail[0] is not None)
        assert [time for time in w.provider.times("sample") if time > failed_at] == []
        assert set(errors(w, failed_at)) == {NOT_FOUND}
        assert 3 <= len(errors(w, failed_at)) <= 6
        assert w.sink.of("ended") == []
        assert w.tracked().progress.allocation == ON_A_POD


@in_virtual_time
async def test_it_is_read_again_as_soon_as_there_is_a_pod():
    async with world() as w:
        await without_its_pod(w, 100)
        w.provider["s-1"].allocation = None
        await w.until(170)
        first = next(entry.at for entry in w.sink.of("sample") if entry.at > 100 and entry.detail[0] is None)
        assert first <= 100 + 60 + 2
        assert errors(w, first) == [None] * len(errors(w, first))


@pytest.mark.parametrize("error_type", [ErrorType.TIMEOUT, ErrorType.HTTP_ERROR])
@in_virtual_time
async def test_a_control_plane_that_does_not_say_brings_no_pod_back(error_type):
    async with world() as w:
        await without_its_pod(w, 100)
        w.provider["s-1"].allocation = error_type
        await w.until(400)
        assert [time for time in w.provider.times("sample") if time > 100] == []
        assert error_type in errors(w, 100)


@in_virtual_time
async def test_it_is_known_after_a_restart():
    async with world() as w:
        await without_its_pod(w, 100)
        kept, event = load_progress(dump_progress(w.tracked().progress)), w.tracked().lifecycle.start
    async with world() as w:
        w.provider["s-1"].allocation = NOT_FOUND
        w.restore([event], {"s-1": kept})
        await w.until(100)
        assert w.provider.times("sample") == []


@in_virtual_time
async def test_a_record_that_turns_out_to_be_gone_has_ended():
    async with world() as w:
        await without_its_pod(w, 100)
        w.provider["s-1"].state = SandboxState.NOT_FOUND
        await w.until(200)
        assert w.summary()["reason"] == "gone"


@in_virtual_time
async def test_a_daemon_that_fails_in_a_container_costs_no_look_at_its_allocation():
    async with world() as w:
        await w.live(25)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.until(200)
        assert w.provider.times("allocation") == [0]
