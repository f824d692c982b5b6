"""The ingest port as configured: a certificate, and a token beside it."""

from sandgauge_schemas import names
from support.certificate import make_certificate
from support.direct_session import direct_session
from support.feed import start_span
from support.otlp_json import from_resource, traces
from support.running_poller import RunningPoller

TOKEN = "t0ken-of-the-ingest-port"


def test_spans_come_in_over_tls_from_whoever_shows_the_token(tmp_path):
    certificate = make_certificate(tmp_path)
    poller = RunningPoller(tmp_path / "poller")
    port = poller.endpoint.rpartition(":")[2]
    tls = {"cert_file": str(certificate), "key_file": str(certificate.with_name("key.pem"))}
    poller.configure({"ingest": {"endpoint": f"127.0.0.1:{port}", "tls": tls, "auth": {"bearer_token": TOKEN}}})
    request = traces(from_resource({names.NEMO_RUN_ID: "run-1"}, start_span("s-1")))
    with poller, direct_session() as session:
        session.verify = str(certificate)

        def post(**headers):
            return session.post(f"https://127.0.0.1:{port}/v1/traces", json=request, headers=headers, timeout=60)

        assert post(Authorization=f"Bearer {TOKEN}").status_code == 200
        assert post().status_code == post(Authorization="Bearer wrong").status_code == 401
    assert poller.complaints() == []
    assert TOKEN not in poller.log_file.read_text()
