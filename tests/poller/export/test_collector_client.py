"""POSTs to the Collector: what is sent, what of the environment is not used, and how an answer may fail to come."""

import gc
import shutil
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sandgauge_demo.loopback import free_ports
from sandgauge_poller.export.answer import Verdict
from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings, NoAnswerError, send
from sandgauge_poller.export.messages import export_request
from sandgauge_schemas.names import Signal
from support.hostile_daemons import says_for_ever
from support.otlp_sink import Answer, OtlpSink
from support.raw_collector import RawCollector

MESSAGE = export_request([])
SECRET = "Basic dXNlcjpwYXNz=="


@pytest.fixture
def sink():
    with OtlpSink() as opened:
        yield opened


@pytest.fixture
def make_client():
    clients = []

    def make(endpoint, **settings):
        clients.append(CollectorClient(CollectorSettings(endpoint=endpoint, **settings)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def headers_of(received):
    return {name.lower(): value for name, value in received.headers.items()}


def post(client, signal=Signal.TRACES, timeout_s=5.0):
    return client.post(signal, MESSAGE, timeout_s)


@contextmanager
def raw_server(answer):
    """Serve one connection after the other on loopback: read what comes, send the bytes, close; None never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(65536)
            if answer is None:
                held.append(connection)
                continue
            connection.sendall(answer)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(60)
    for connection in held:
        connection.close()


def test_each_signal_has_its_path_and_one_connection_serves_both(sink, make_client):
    client = make_client(sink.endpoint)
    for signal in (Signal.TRACES, Signal.METRICS) * 3:
        assert post(client, signal).status == 200
    assert [request.path for request in sink.requests()] == ["/v1/traces", "/v1/metrics"] * 3
    pools = client._session.get_adapter(sink.endpoint).poolmanager.pools
    assert [pools.get(key).num_connections for key in pools.keys()] == [1]  # noqa: SIM118 - no plain mapping


@pytest.mark.parametrize("compress", [True, False])
def test_the_body_arrives_as_it_was_encoded(sink, make_client, compress):
    post(make_client(sink.endpoint, compress=compress))
    received = sink.requests()[0]
    assert received.body == MESSAGE
    assert headers_of(received).get("content-encoding") == ("gzip" if compress else None)


def test_headers_are_sent_byte_for_byte_and_shown_nowhere(sink, make_client):
    settings = CollectorSettings(
        endpoint=sink.endpoint, headers={"authorization": SECRET, "x-tenant": "a = b", "content-type": "text/plain"}
    )
    assert SECRET not in repr(settings)
    post(make_client(sink.endpoint, headers=settings.headers))
    headers = headers_of(sink.requests()[0])
    assert headers["authorization"] == SECRET
    assert headers["x-tenant"] == "a = b"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["accept-encoding"] == "identity", "a packed answer could unpack to anything"
    assert headers["user-agent"].startswith("sandgauge-poller/")


def test_nothing_is_taken_from_the_environment(sink, make_client, monkeypatch, tmp_path):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,::1/128")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other=1")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    assert post(make_client(sink.endpoint)).status == 200
    assert headers_of(sink.requests()[0]).keys().isdisjoint({"authorization", "x-other", "cookie"})


@pytest.mark.parametrize("status", range(300, 309))
def test_a_redirect_is_an_answer_and_not_followed(sink, make_client, status):
    with OtlpSink() as elsewhere:
        sink.script(Answer(status=status, headers={"Location": f"{elsewhere.endpoint}/v1/traces"}))
        answer = post(make_client(sink.endpoint, headers={"authorization": SECRET}))
        assert (answer.status, elsewhere.requests()) == (status, [])
    assert len(sink.requests()) == 1


def test_headers_of_an_answer_are_found_by_small_letters(sink, make_client):
    sink.script(Answer(status=503, headers={"Retry-After": "7"}, body=b"busy"))
    answer = post(make_client(sink.endpoint))
    assert (answer.headers["retry-after"], answer.body) == ("7", b"busy")


def test_an_endless_answer_is_read_to_a_bound_and_is_no_otlp(sink, make_client):
    sink.script(Answer(body=b"\x0a" * 10_000_000))
    client = make_client(sink.endpoint)
    assert len(post(client).body) == 64 * 1024
    sink.script(Answer(headers={"Content-Type": "text/html"}, body=b"<" * 10_000_000))
    assert send(client.post, Signal.TRACES, MESSAGE, timeout_s=5.0, now_s=0.0).verdict is Verdict.RETRY


def unused_endpoint():
    (port,) = free_ports(1)
    return f"http://127.0.0.1:{port}"


def test_a_refused_connection_says_so(make_client):
    with pytest.raises(NoAnswerError, match=r"^Connection refused$"):
        post(make_client(unused_endpoint()))


def test_a_request_without_an_answer_leaves_nothing_to_the_garbage_collector(make_client):
    client = make_client(unused_endpoint())
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            assert send(client.post, Signal.TRACES, MESSAGE, timeout_s=5.0, now_s=0.0).verdict is Verdict.RETRY
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_silence_is_a_timeout(make_client):
    with raw_server(None) as endpoint, pytest.raises(NoAnswerError, match=r"^timeout$"):
        post(make_client(endpoint), timeout_s=0.2)


@pytest.mark.parametrize(
    ("head", "part"),
    [(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x")],
    ids=["head", "body"],
)
def test_an_answer_that_drips_is_a_timeout(make_client, head, part):
    with RawCollector(says_for_ever(head, part, 0.05)) as collector:
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"^timeout$"):
            post(make_client(collector.endpoint), timeout_s=0.3)
        assert time.monotonic() - began < 10.0


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"],
)
def test_a_broken_answer_is_none(make_client, answer):
    with raw_server(answer) as endpoint, pytest.raises(NoAnswerError, match=r"^[A-Za-z ]+$"):
        post(make_client(endpoint))


def test_no_fault_tells_a_header(make_client):
    client = make_client("http://127.0.0.1:9", headers={"authorization": f"{SECRET}\nx: y"})
    with pytest.raises(NoAnswerError, match=r"^InvalidHeader$"):
        post(client)
    client = make_client("http://127.0.0.1:9", headers={"authorization": f"{SECRET}€"})
    with pytest.raises(NoAnswerError, match=r"^UnicodeEncodeError$"):
        post(client)


def test_no_answer_is_a_reason_to_send_again(make_client):
    client = make_client(unused_endpoint())
    outcome = send(client.post, Signal.METRICS, MESSAGE, timeout_s=1.0, now_s=0.0)
    assert (outcome.verdict, outcome.detail) == (Verdict.RETRY, "Connection refused")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate of this test, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture
def tls_endpoint(certificate):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            """Keep quiet."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # a client that refuses the certificate is wanted here
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(60)


def test_an_unknown_certificate_is_refused(tls_endpoint, make_client):
    with pytest.raises(NoAnswerError, match="certificate verify failed"):
        post(make_client(tls_endpoint))


def test_a_certificate_of_the_configured_authority_is_taken(tls_endpoint, make_client, certificate, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/absent")
    assert post(make_client(tls_endpoint, ca_file=certificate[0])).status == 200


def test_verification_can_be_switched_off(tls_endpoint, make_client):
    assert post(make_client(tls_endpoint, insecure_skip_verify=True)).status == 200
