"""What is garbage goes, also where Python itself sees no reason to look for it."""

import gc
import weakref

import pytest

from sandgauge_poller import process
from sandgauge_poller.process import look_for_garbage


class Ring:
    def __init__(self):
        self.itself = self


class EnoughError(Exception):
    pass


async def test_garbage_that_is_new_goes_within_seconds():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise EnoughError

    gc.disable()
    try:
        garbage = weakref.ref(Ring())
        with pytest.raises(EnoughError):
            await look_for_garbage(sleep)
        assert garbage() is None
        assert waits == [5.0, 5.0]
    finally:
        gc.enable()


async def test_old_garbage_goes_once_the_process_has_grown(monkeypatch):
    most = [100, 150, 151, 151]
    monkeypatch.setattr(process, "_most_memory", lambda: most.pop(0))
    alive_after = []

    async def sleep(_):
        alive_after.append(garbage() is not None)
        if len(alive_after) == 3:
            raise EnoughError

    gc.disable()
    try:
        ring = Ring()
        gc.collect()  # so that it is old
        garbage = weakref.ref(ring)
        del ring
        with pytest.raises(EnoughError):
            await look_for_garbage(sleep)
        assert alive_after == [True, True, False]
    finally:
        gc.enable()
