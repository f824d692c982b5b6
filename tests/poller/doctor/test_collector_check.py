"""What the doctor says of a Collector, by every kind of answer."""

import socket
import threading
import time

import pytest

from sandgauge_poller.config import Export
from sandgauge_poller.doctor.collector import examine
from support.otlp_sink import Answer

SECRET = "t0ken-of-the-collector"


def lines(endpoint, **export):
    return [str(finding) for finding in examine(Export(endpoint=endpoint, **export), time.time)]


def test_both_signals_are_tried_as_they_are_delivered(otlp_sink):
    said = lines(otlp_sink.endpoint, headers={"authorization": f"Bearer {SECRET}"})
    assert said == [f"pass  Collector ({signal}): takes an empty request" for signal in ("traces", "metrics")]
    assert [(one.path, one.body) for one in otlp_sink.requests()] == [("/v1/traces", b""), ("/v1/metrics", b"")]
    assert all(one.headers["Authorization"] == f"Bearer {SECRET}" for one in otlp_sink.requests())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(status=401), "fail  Collector (traces): refuses an empty request: HTTP 401; check export.headers"),
        (Answer(status=404), "fail  Collector (traces): refuses an empty request: HTTP 404; check export.endpoint"),
        (Answer(status=307), "fail  Collector (traces): refuses an empty request: HTTP 307; check export.endpoint"),
        (Answer(status=500), "fail  Collector (traces): refuses an empty request: HTTP 500; check export.endpoint"),
        (Answer(status=503), "warn  Collector (traces): HTTP 503: it is there and overloaded"),
        (
            Answer(headers={"Content-Type": "text/html"}, body=b"<html>log in</html>"),
            "fail  Collector (traces): refuses an empty request: HTTP 200 with a body that is not OTLP",
        ),
    ],
)
def test_an_answer_is_judged_as_a_delivery_is(otlp_sink, answer, said):
    otlp_sink.script(answer)
    traces, metrics = lines(otlp_sink.endpoint, headers={"authorization": SECRET})
    assert traces.startswith(said)
    assert metrics.startswith("pass")
    assert "log in" not in traces
    assert SECRET not in traces


def test_a_path_that_should_not_be_there_is_named(otlp_sink):
    otlp_sink.script(Answer(status=404), Answer(status=404))
    assert all("leave the path off export.endpoint" in line for line in lines(f"{otlp_sink.endpoint}/otlp"))


def test_nobody_there():
    said = lines("http://127.0.0.1:9")
    assert [line.partition("; ")[0] for line in said] == [
        f"fail  Collector ({signal}): no answer: Connection refused" for signal in ("traces", "metrics")
    ]


def test_plain_http_where_tls_was_meant(otlp_sink):
    said = lines(otlp_sink.endpoint.replace("http:", "https:"))
    assert all("export.tls.ca_file, or write http:// if it speaks no TLS" in line for line in said)


def test_port_4317_is_taken_for_grpc():
    # Whatever holds that port on this machine: nothing that speaks OTLP over HTTP does.
    said = lines("http://127.0.0.1:4317", timeout=1.0)
    assert all("takes gRPC by custom" in line and "4318" in line for line in said if not line.startswith("pass"))
    assert said


def test_a_server_that_hangs_up_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up():
            for _ in range(4):  # each signal, and each time a look whether anyone is there at all
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        said = lines(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    cure = "something listens there that answers no http; name the port of OTLP over HTTP"
    assert all(cure in line for line in said)
    assert len(said) == 2
