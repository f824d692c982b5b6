"""A state folder on a disk that is full: spans are put off, the poller lives on, and goes on once there is room."""

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sandgauge_schemas import names
from support.delivered import ids_in
from support.direct_session import direct_session
from support.feed import GYM, feed, start_span
from support.otlp_json import from_resource, traces
from support.outbox_account import account
from support.running_poller import RunningPoller
from support.small_disk import mounted
from support.waiting import wait_until

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk") as folder:
        yield folder


def fill(folder):
    """Take all room there is and return the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (64 * 1024, 1024, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def send(endpoint, *spans):
    request = traces(from_resource(GYM, *spans))
    with direct_session() as session:
        return session.post(f"{endpoint}/v1/traces", json=request, timeout=60)


def test_spans_wait_until_there_is_room(osb, make_poller, otlp_sink, small_disk):
    early, late = osb.create(), osb.create()
    poller = make_poller(state={"directory": str(small_disk / "state")})
    poller.start()
    feed(poller.endpoint, start_span(early))
    otlp_sink.wait_for(lambda sink: early in ids_in(sink, SAMPLE))
    ballast = fill(small_disk)
    # What there is room for in pages already taken is still stored.
    answers = []

    def is_refused():
        answers.append(send(poller.endpoint, start_span(late, attributes={"padding": "x" * 100_000})))
        return answers[-1].status_code != 200

    wait_until(is_refused, timeout_s=60, what="a span that is not stored")
    answers += [send(poller.endpoint, start_span(late, attributes={"padding": "x" * 100_000})) for _ in range(5)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {(answer.status_code, answer.headers["Retry-After"]) for answer in refused} == {(503, "1")}
    assert get(poller, "/healthz").status_code == 200
    wait_until(lambda: get(poller, "/readyz").status_code == 503, timeout_s=60, what="a poller that is not ready")
    read = good_readings(poller)
    wait_until(lambda: good_readings(poller) > read + 2, timeout_s=60, what="readings that cannot be stored")
    before = len(otlp_sink.spans(SAMPLE))
    ballast.unlink()
    wait_until(lambda: send(poller.endpoint, start_span(late)).status_code == 200, timeout_s=60, what="room again")
    otlp_sink.wait_for(
        lambda sink: (
            {early, late} <= {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in sink.spans(SAMPLE)[before:]}
        ),
        30,
    )
    assert get(poller, "/readyz").status_code == 200
    assert poller.stop() == 0
    lines = poller.complaints()
    assert [line for line in lines if "make room" not in line or "sandgauge.db: cannot be written" not in line] == []
    assert len([line for line in lines if "times since" not in line]) <= 2, (
        "full in the words of SQLite, or the system's"
    )
    (lost,) = [entry["message"] for entry in poller.log() if "are lost" in entry["message"]]
    assert int(lost.split()[0]) >= 5
    poller.log_file.write_text("")
    for signal, of_a_reading in (("traces", 1), ("metrics", 4)):
        counted = account(small_disk / "state", signal)
        assert counted.is_exact
        assert counted.dropped >= of_a_reading


def test_a_store_that_is_idle_finds_out_by_itself_that_there_is_room(make_poller, small_disk):
    poller = make_poller(state={"directory": str(small_disk / "state")}, deployments=[])
    poller.start()
    assert get(poller, "/readyz").json()["store"] is True
    ballast = fill(small_disk)
    wait_until(
        lambda: send(poller.endpoint, *map(start_span, map(str, range(200)))).status_code == 503,
        timeout_s=60,
        what="spans that are not stored",
    )
    shown = get(poller, "/readyz")
    assert (shown.status_code, shown.json()["ready"], shown.json()["store"]) == (503, False, False)
    assert "sandgauge.db: cannot be written" in shown.json()["store_trouble"]
    assert "make room on that disk" in shown.json()["store_trouble"]
    ballast.unlink()
    wait_until(lambda: get(poller, "/readyz").status_code == 200, timeout_s=60, what="a poller that is ready")
    assert "store_trouble" not in get(poller, "/readyz").json()
    assert poller.stop() == 0
    assert [line for line in poller.complaints() if "make room" not in line] == []
    assert any("can be written again" in entry["message"] for entry in poller.log())
    poller.log_file.write_text("")


def test_a_poller_with_nothing_to_store_says_that_the_disk_is_full(make_poller, small_disk):
    poller = make_poller(state={"directory": str(small_disk / "state")}, deployments=[])
    poller.start()
    for _ in range(2):
        ballast = fill(small_disk)
        wait_until(lambda: get(poller, "/readyz").status_code == 503, timeout_s=60, what="a poller that is not ready")
        assert "make room on that disk" in get(poller, "/readyz").json()["store_trouble"]
        ballast.unlink()
        wait_until(lambda: get(poller, "/readyz").status_code == 200, timeout_s=60, what="a poller that is ready")
    assert poller.stop() == 0
    assert [line for line in poller.complaints() if "make room" not in line] == []
    poller.log_file.write_text("")


def good_readings(poller):
    """Return how many readings went well by the poller's own count."""
    families = text_string_to_metric_families(get(poller, "/metrics").text)
    name, labels = "sandgauge_poller_reads_total", {"kind": "sample", "outcome": "ok"}
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def get(poller, path):
    with direct_session() as session:
        return session.get(f"{poller.status_url}{path}", timeout=60)


def start_in_vain(poller):
    """Start a poller that refuses to, with exit code 1, and return what it printed."""
    with pytest.raises(RuntimeError, match="the poller ended with 1"):
        poller.start()
    printed = poller.log_file.read_text()
    poller.log_file.write_text("")
    assert "ready" not in printed
    assert "spans on" not in printed
    return printed


def test_a_disk_that_may_only_be_read_is_refused_before_any_span(make_poller, tmp_path):
    with mounted(tmp_path / "disk", "ro") as folder:
        printed = start_in_vain(make_poller(state={"directory": str(folder)}))
    assert f"{folder}: cannot be written (Read-only file system); {folder} belongs to user id 0; " in printed
    assert f"let user id {os.geteuid()} write there, or name another folder as state.directory" in printed


def test_a_full_disk_is_refused_before_any_span(make_poller, small_disk):
    fill(small_disk)
    printed = start_in_vain(make_poller(state={"directory": str(small_disk / "state")}))
    assert "cannot be written" in printed
    assert "make room" in printed


def test_a_second_poller_is_refused_and_the_first_lives_on(osb, make_poller, otlp_sink, tmp_path):
    sandbox_id = osb.create()
    first = make_poller()
    first.start()
    second = RunningPoller(tmp_path / "second", {"state": {"directory": str(tmp_path / "state")}})
    printed = start_in_vain(second)
    assert f"the poller with process id {first.pid} is using this folder" in printed
    feed(first.endpoint, start_span(sandbox_id))
    otlp_sink.wait_for(lambda sink: sandbox_id in ids_in(sink, SAMPLE))
