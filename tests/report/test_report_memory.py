"""Memory of a report grows with sandboxes, and not with their readings."""

import json
import tracemalloc
from contextlib import contextmanager

from sandgauge_report.merging.distinct import K
from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.reading.otlp import spans
from support.recorded_run import recorded_run

_KIB = 2**10


@contextmanager
def traced():
    tracemalloc.start(1)
    try:
        yield
    finally:
        tracemalloc.stop()


def kept_bytes(sandboxes, readings):
    """Return what is kept of a run, in bytes, once its last line is gone."""
    inventory = Inventory()
    lines = recorded_run(sandboxes=sandboxes, readings=readings)
    with traced():
        before, _ = tracemalloc.get_traced_memory()
        for line in lines:
            for one in spans(json.loads(line)):
                inventory.add(one)
        del line, one, lines
        after, _ = tracemalloc.get_traced_memory()
    assert len(inventory.sandboxes) == sandboxes
    return after - before


def test_three_times_the_readings_take_no_more_once_the_sample_is_full():
    full, three_times = kept_bytes(1, K), kept_bytes(1, 3 * K)
    assert three_times < full + _KIB
    assert full < 48 * _KIB


def test_ten_times_the_sandboxes_take_ten_times_the_memory():
    few, many = kept_bytes(10, 2), kept_bytes(100, 2)
    assert 5 < many / few < 11
    assert many < 100 * 16 * _KIB
