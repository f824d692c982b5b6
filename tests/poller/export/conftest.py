"""A recorder on the store of its test."""

import pytest
from opentelemetry.metrics import NoOpMeter

from sandgauge_poller.export.recorder import Recorder
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.self_histograms import SelfHistograms
from sandgauge_poller.self_metrics import SelfMetrics
from support.readings import SECOND, SETTINGS, T0


@pytest.fixture
def make_recorder(database):
    def make(max_outbox_bytes=2**20, known_kills=lambda _: None):
        return Recorder(
            database,
            SETTINGS,
            max_outbox_bytes=max_outbox_bytes,
            clock=Clock(now_ns=lambda: T0 + 100 * SECOND),
            metrics=SelfMetrics(NoOpMeter("tests"), SelfHistograms("tests")),
            wake=lambda: None,
            known_kills=known_kills,
        )

    return make
