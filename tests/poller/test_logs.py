"""What the log looks like on a terminal and elsewhere, and that no fault fills it."""

import io
import json
import logging
import threading

import pytest

from sandgauge_poller.logs import (
    REPEAT_PERIOD_S,
    CountingHandler,
    RepeatsCounted,
    same_fault,
    say_repeats,
    set_up_logs,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def own_logging():
    """Give the process its logging back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def time_passes():
    class Time:
        now = 50.0

    return Time()


@pytest.fixture
def logger(time_passes):
    stream = io.StringIO()
    handler = CountingHandler(stream, RepeatsCounted(lambda: time_passes.now))
    made = logging.getLogger("part-with-a-handler-of-its-own")
    made.addHandler(handler)
    made.propagate = False
    made.said = lambda: stream.getvalue().splitlines()
    yield made
    made.removeHandler(handler)


def raised(error):
    """Return the error as it is once it was raised, with its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize("form", ["console", "json"])
def test_no_text_of_a_span_steers_a_terminal_or_begins_another_line(form):
    out = io.StringIO()
    set_up_logs("info", form, out)
    error = raised(ValueError("d\x1b[2Je"))
    logging.getLogger("part").error("sandbox %s", "a\u202eb\nc", exc_info=error)
    said = out.getvalue()
    lines = [line for line in said.splitlines() if not line.startswith((" ", "Traceback", "ValueError"))]
    assert len(lines) == 1
    assert r"sandbox a\u202eb\nc" in said
    assert "d" in said
    assert not {"\x1b", "\u202e"} & set(said)


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        ("auto", io.StringIO, True),
        ("auto", Terminal, False),
        ("json", Terminal, True),
        ("console", io.StringIO, False),
    ],
)
def test_json_where_nobody_looks(form, stream, is_json):
    out = stream()
    set_up_logs("info", form, out)
    logging.getLogger("part").info("ready: %d", 3)
    (line,) = out.getvalue().splitlines()
    assert "ready: 3" in line
    assert line.startswith("{") is is_json


def test_a_json_line_has_its_fields_and_the_traceback_in_one_line():
    out = io.StringIO()
    set_up_logs("warning", "json", out)
    logging.getLogger("part").info("left out by its level")
    logging.getLogger("part").error("it failed", exc_info=raised(ValueError("a\nb \u00fc")))
    (line,) = out.getvalue().splitlines()
    fields = json.loads(line)
    assert fields.keys() == {"time", "level", "logger", "message", "traceback"}
    assert (fields["level"], fields["logger"], fields["message"]) == ("error", "part", "it failed")
    assert fields["time"].endswith("Z")
    assert fields["traceback"].endswith("ValueError: a\nb \u00fc")


def test_repeats_are_counted_and_said_once_a_minute(logger, time_passes):
    for _ in range(1000):
        logger.error("a request failed")
    assert logger.said() == ["a request failed"]
    time_passes.now += REPEAT_PERIOD_S
    logger.error("a request failed")
    logger.error("a request failed")
    assert logger.said()[1:] == ["a request failed (1000 times since this was last said)"]
    time_passes.now += 2 * REPEAT_PERIOD_S
    logger.error("a request failed")
    assert logger.said()[2:] == ["a request failed (2 times since this was last said)"]


def test_a_fault_that_comes_seldom_is_said_as_it_is(logger, time_passes):
    for _ in range(3):
        logger.warning("odd")
        time_passes.now += REPEAT_PERIOD_S
    assert logger.said() == ["odd"] * 3


def test_the_last_count_of_a_fault_that_has_ended_is_said_too(logger, time_passes):
    handler = logger.handlers[0]
    for _ in range(4):
        logger.error("a request failed", exc_info=raised(ValueError()))
    logger.warning("odd")
    said = len(logger.said())
    handler.say_repeats()
    assert len(logger.said()) == said, "its minute is not over"
    time_passes.now += REPEAT_PERIOD_S
    handler.say_repeats()
    assert logger.said()[said:] == ["a request failed (3 times since this was last said)"]
    handler.say_repeats()
    assert len(logger.said()) == said + 1
    logger.error("a request failed", exc_info=raised(ValueError()))
    assert len(logger.said()) == said + 1, "it was said less than a minute ago"
    time_passes.now += REPEAT_PERIOD_S
    handler.say_repeats()
    assert logger.said()[said + 1 :] == ["a request failed (1 time since this was last said)"]


def test_the_end_of_the_process_waits_for_no_minute(logger):
    for _ in range(3):
        logger.warning("busy")
    logger.handlers[0].close()
    assert logger.said() == ["busy", "busy (2 times since this was last said)"]


def test_a_count_keeps_its_level_and_its_logger():
    out = io.StringIO()
    set_up_logs("info", "json", out)
    for _ in range(3):
        logging.getLogger("part").error("it failed")
    (handler,) = logging.getLogger().handlers
    handler.say_repeats(0.0)
    fields = json.loads(out.getvalue().splitlines()[-1])
    assert (fields["level"], fields["logger"]) == ("error", "part")
    assert fields["message"] == "it failed (2 times since this was last said)"
    say_repeats()
    assert len(out.getvalue().splitlines()) == 2


def test_records_of_one_fault_are_counted_together_whatever_their_example(logger, time_passes):
    for host in "xyz":
        logger.warning("not allowed (host %s)", host, extra=same_fault("not allowed"))
    assert logger.said() == ["not allowed (host x)"]
    time_passes.now += REPEAT_PERIOD_S
    logger.handlers[0].say_repeats()
    assert logger.said()[1:] == ["not allowed (host z) (2 times since this was last said)"]


def test_other_texts_levels_and_errors_are_other_faults(logger):
    for error in (ValueError, KeyError):
        for _ in range(2):
            logger.error("failed", exc_info=raised(error()))
    logger.error("failed")
    logger.warning("failed")
    logger.warning("failed: %s", "a")
    logger.warning("failed: %s", "b")
    assert [line for line in logger.said() if line.startswith("failed")] == ["failed"] * 4 + ["failed: a", "failed: b"]


def test_what_is_no_fault_is_never_held_back(logger):
    logger.setLevel(logging.INFO)
    for _ in range(3):
        logger.info("stopping")
    assert logger.said() == ["stopping"] * 3


def test_the_memory_of_faults_is_bounded(logger):
    for number in range(5000):
        logger.warning("fault %d", number)
    (counted,) = logger.handlers[0].filters
    assert len(counted._faults) == 1024
    logger.warning("fault 4999")
    assert len(logger.said()) == 5000


def test_the_count_of_a_fault_that_is_forgotten_is_still_said(logger):
    for _ in range(3):
        logger.warning("busy")
    for number in range(1024):
        logger.warning("fault %d", number)
    logger.handlers[0].say_repeats()
    assert logger.said()[-1] == "busy (2 times since this was last said)"


def test_threads_lose_no_count(logger, time_passes):
    def repeat():
        for _ in range(200):
            logger.warning("busy")

    threads = [threading.Thread(target=repeat) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time_passes.now += REPEAT_PERIOD_S
    logger.warning("busy")
    assert logger.said() == ["busy", "busy (1600 times since this was last said)"]


def test_the_poller_counts_what_its_libraries_say_too():
    out = io.StringIO()
    set_up_logs("info", "json", out)
    for _ in range(100):
        logging.getLogger("aiohttp.server").error("Error handling request from %s", "127.0.0.1")
    assert len(out.getvalue().splitlines()) == 1
