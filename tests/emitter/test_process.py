"""The emitter in processes of its own: what it loads, how it ends, and what becomes of it in children."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from sandgauge_demo.loopback import free_ports
from sandgauge_schemas import names
from support.otlp_proto import spans_of

REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START
HEAVY = ("opentelemetry", "requests", "urllib3", "yaml", "pydantic", "aiohttp", "google", "grpc", "multiprocessing")


def environment(**variables):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "NEMO_", "SANDGAUGE_"))}
    return {**kept, **variables}


def on(endpoint):
    return environment(SANDGAUGE_ENABLED="1", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)


def run(script, env, *, code=0):
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done


def sandbox_ids(sink):
    return sorted(span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in sink.spans(START))


IMPORT = """
import sys, time
before = set(sys.modules)
start = time.process_time()  # on a busy machine the clock on the wall says nothing
import sandgauge_emitter
print((time.process_time() - start) * 1000)
print(*set(sys.modules) - before)
"""


@pytest.mark.load  # for the clock that it looks at
def test_an_import_is_light():
    times = []
    for _ in range(5):
        milliseconds, modules = run(IMPORT, environment()).stdout.splitlines()
        times.append(float(milliseconds))
        loaded = {name.partition(".")[0] for name in modules.split()}
        assert not loaded & set(HEAVY)
    print(f"import of sandgauge_emitter: {min(times):.0f} ms")
    assert min(times) < 100


OFF = """
import sys
import sandgauge_emitter
before = set(sys.modules)
request = sandgauge_emitter.record_request(provider="p", resources={"cpu": 1})
request.started("sbx-1", scope="http://c:8080")
request.failed("timeout")
assert request.request_id
print(*set(sys.modules) - before)
"""


def test_while_it_is_off_nothing_is_loaded_and_nothing_is_said():
    done = run(OFF, environment())
    assert not done.stdout.split()
    assert not done.stderr


TO_THE_CONSOLE = """
import sandgauge_emitter
sandgauge_emitter.record_request(provider="p").failed("timeout")
"""


def test_the_console_gets_a_line_of_json_for_each_span():
    done = run(TO_THE_CONSOLE, environment(SANDGAUGE_ENABLED="1", NEMO_GYM_OTEL_EXPORTER="console"))
    requested, failed = map(json.loads, done.stdout.splitlines())
    assert (requested["name"], failed["name"]) == (REQUEST, START)
    assert requested["attributes"][names.NEMO_GYM_SANDBOX_PROVIDER] == "p"
    assert (failed["status"]["status_code"], failed["events"][0]["name"]) == ("ERROR", "exception")


WITHOUT_SDK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import sandgauge_emitter
for _ in range(3):
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
"""


def test_without_the_extra_there_is_one_line_and_its_cure():
    (line,) = run(WITHOUT_SDK, environment(SANDGAUGE_ENABLED="1")).stderr.splitlines()
    assert "pip install 'sandgauge[export]'" in line


@contextmanager
def away():
    """A port where nobody listens."""
    (port,) = free_ports(1)
    yield f"http://127.0.0.1:{port}"


@contextmanager
def silent():
    """A Collector that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


RECORD_AND_END = """
import sys, sandgauge_emitter
for _ in range({number}):
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
print("recorded", flush=True)
sys.exit(7)
"""


def seconds_to_its_end(script, endpoint):
    """Return how long a process took to end once it had recorded."""
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, env=on(endpoint), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "recorded\n"
    start = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == 7
    return time.monotonic() - start


@pytest.mark.load  # for the clock that it looks at
@pytest.mark.parametrize("collector", [away, silent])
def test_the_process_ends_soon_whatever_became_of_the_collector(collector):
    with collector() as endpoint:
        # some batches, and one bound for all of them
        seconds = seconds_to_its_end(RECORD_AND_END.format(number=2000), endpoint)
    print(f"end of a process with a Collector that is {collector.__name__}: {seconds:.1f} s")
    assert seconds < 5


def test_the_last_spans_arrive_when_the_process_ends_at_once(otlp_sink):
    run(RECORD_AND_END.format(number=1), on(otlp_sink.endpoint), code=7)
    assert [span.name for span in otlp_sink.spans()] == [REQUEST, START]


FORK = """
import os, sys, sandgauge_emitter
request = sandgauge_emitter.record_request(provider="p")
request.started("parent-1")
child = os.fork()
if child == 0:
    sandgauge_emitter.record_request(provider="p").started("child-1")
    request.started("child-2")
    {end}
request.started("parent-2")
print(child, flush=True)
os.waitpid(child, 0)
request.started("parent-3")
"""
ALL_OF_FORK = ["child-1", "child-2", "parent-1", "parent-2", "parent-3"]


@pytest.mark.parametrize("end", ["sys.exit()", "raise SystemExit(0)"])
def test_spans_of_a_forked_child_and_of_its_parent_arrive_once(otlp_sink, end):
    run(FORK.format(end=end), on(otlp_sink.endpoint))
    assert sandbox_ids(otlp_sink) == ALL_OF_FORK
    assert len({span.span_id for span in otlp_sink.spans()}) == len(otlp_sink.spans()) == 7


@pytest.mark.load  # for the clock that it looks at
def test_spans_of_a_forked_child_arrive_although_it_is_killed(otlp_sink):
    process = subprocess.Popen(
        [sys.executable, "-c", FORK.format(end="import signal; signal.pause()")],
        env=on(otlp_sink.endpoint),
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(process.stdout.readline())
    otlp_sink.wait_for(lambda sink: {"child-1", "child-2"} <= set(sandbox_ids(sink)))
    os.kill(child, signal.SIGKILL)
    process.communicate(timeout=60)
    assert sandbox_ids(otlp_sink) == ALL_OF_FORK
    assert process.returncode == 0
    arrivals = [(one.time_ns, span) for one in otlp_sink.requests() for span in spans_of(one.message)]
    assert max(time_ns - span.end_ns for time_ns, span in arrivals) < 2 * 10**9


FORK_WHILE_SET_UP = """
import os, threading, time, sandgauge_emitter
from sandgauge_emitter import own_provider
begun = threading.Event()
exporter = own_provider.otlp_exporter
def slowly(target):
    begun.set()
    time.sleep(0.3)
    return exporter(target)
own_provider.otlp_exporter = slowly
thread = threading.Thread(target=lambda: sandgauge_emitter.record_request(provider="p").started("parent"))
thread.start()
begun.wait()
child = os.fork()
sandgauge_emitter.record_request(provider="p").started("parent-2" if child else "child")
if child:
    thread.join()
    os.waitpid(child, 0)
"""


def test_a_fork_in_the_middle_of_the_set_up_leaves_no_lock_behind(otlp_sink):
    run(FORK_WHILE_SET_UP, on(otlp_sink.endpoint))
    assert sandbox_ids(otlp_sink) == ["child", "parent", "parent-2"]


POOL = """
import multiprocessing, sandgauge_emitter
def work(name):
    sandgauge_emitter.record_request(provider="p").started(name)
if __name__ == "__main__":
    work("parent")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(f"worker-{i}",)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


def test_workers_that_end_at_once_lose_nothing(otlp_sink):
    run(POOL, on(otlp_sink.endpoint))
    assert sandbox_ids(otlp_sink) == ["parent", "worker-0", "worker-1", "worker-2"]


TWO_RUNS = """
import atexit, time
atexit.register(lambda: print(time.monotonic() - ended))  # the first to be registered is the last to be called
import sandgauge_emitter
for run, number in (("run-1", 2000), ("run-2", 1)):
    sandgauge_emitter.configure(run_id=run)
    for _ in range(number):
        sandgauge_emitter.record_request(provider="p")
ended = time.monotonic()
"""


@pytest.mark.load  # for the clock that it looks at
def test_two_runs_share_the_time_at_the_end():
    with away() as endpoint:
        assert 2 < float(run(TWO_RUNS, on(endpoint)).stdout) < 5


WORKERS_AND_END = "import multiprocessing.util\n" + RECORD_AND_END.format(number=1)


@pytest.mark.load  # for the clock that it looks at
def test_a_program_with_workers_does_not_wait_twice():
    with away() as endpoint:
        assert seconds_to_its_end(WORKERS_AND_END, endpoint) < 5


FORK_AFTER_A_CHANGE = """
import os, sys
import sandgauge_emitter
for run_id in ("run-1", "run-2"):
    sandgauge_emitter.configure(run_id=run_id)
    sandgauge_emitter.record_request(provider="fake").started("s")
from concurrent.futures import ThreadPoolExecutor  # late, as its first use in a program may be
with ThreadPoolExecutor(1) as pool:
    pool.submit(int).result()
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_while_a_replaced_provider_is_still_closing_does_not_hang():
    assert run(FORK_AFTER_A_CHANGE, on("http://127.0.0.1:9")).stdout == "7\n"
