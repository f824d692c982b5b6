import logging

import pytest

from sandgauge_poller.reading.trouble_log import PERIOD_S, TroubleLog


class Time:
    now = 50.0


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, logger="sandgauge_poller.reading")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_trouble_is_said_once_a_minute_with_a_count(said):
    time = Time()
    log = TroubleLog(lambda: time.now)
    for _ in range(1000):
        log.say("deployment a: refused", " (host x)")
    assert said() == ["deployment a: refused (host x)"]
    time.now += PERIOD_S
    log.say("deployment a: refused", " (host y)")
    log.say("deployment a: refused")
    assert said()[1:] == ["deployment a: refused (host y) (1000 times since this was last said)"]


def test_troubles_are_counted_apart(said):
    log = TroubleLog(lambda: 0.0)
    log.say("one")
    log.say("two")
    log.say("one")
    assert said() == ["one", "two"]
