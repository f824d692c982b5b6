import os
import sys

import psutil
import pytest

from sandgauge_demo.process import ChildProcess, ProcessError
from support.waiting import wait_until

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
)


def child(tmp_path, code, **more):
    command = [sys.executable, "-c", code]
    return ChildProcess("a part", command, environment=os.environ, log_file=tmp_path / "part.log", **more)


@pytest.fixture
def children():
    """Return the processes that this one has started since the test began."""
    before = set(psutil.Process().children())
    return lambda: set(psutil.Process().children()) - before


def test_a_command_that_is_not_there_is_a_clear_error(tmp_path):
    process = ChildProcess("a part", ["/nowhere"], environment={}, log_file=tmp_path / "part.log")
    with pytest.raises(ProcessError, match="a part does not start: No such file or directory"):
        process.start()


def test_one_that_ends_while_it_is_awaited_shows_the_end_of_its_log(tmp_path):
    code = "import sys; print(*range(20), sep='\\n'); sys.exit(3)"
    with (
        child(tmp_path, code) as process,
        pytest.raises(
            ProcessError, match=r"a part ended with 3 while starting; the end of .*part\.log:\n15\n"
        ) as error,
    ):
        process.wait_until(lambda: False, timeout_s=60, what="ready")
    assert "\n14\n" not in str(error.value)


def test_one_that_never_gets_ready_is_given_up(tmp_path, children):
    with (
        child(tmp_path, "import time; time.sleep(600)") as process,
        pytest.raises(ProcessError, match="a part was not ready within 0 s"),
    ):
        process.wait_until(lambda: False, timeout_s=0.1, what="ready")
    assert not children()


def test_what_pausing_raises_ends_the_waiting(tmp_path):
    def refuse(_seconds):
        raise InterruptedError

    with child(tmp_path, "import time; time.sleep(600)") as process, pytest.raises(InterruptedError):
        process.wait_until(lambda: False, timeout_s=60, what="ready", pause=refuse)


def test_one_that_does_not_heed_the_request_is_killed(tmp_path, monkeypatch, children):
    monkeypatch.setattr("sandgauge_demo.process._STOP_TIMEOUT_S", 0.2)
    process = child(tmp_path, STUBBORN)
    process.start()
    (running,) = children()
    wait_until(lambda: process.log_file.read_text() == "on\n", timeout_s=60, what="a handler in place")
    process.stop()
    assert not running.is_running()


def test_ctrl_c_in_the_terminal_does_not_reach_it(tmp_path):
    with child(tmp_path, "import os; print(os.getsid(0) == os.getpid())") as process:
        wait_until(lambda: process.exit_code is not None, timeout_s=60, what="an end")
        assert process.log_file.read_text() == "True\n"
