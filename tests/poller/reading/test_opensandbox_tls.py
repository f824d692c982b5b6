import pytest

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import ErrorType
from support.certificate import make_certificate, server_context
from support.stub_control_plane import ID, StubControlPlane, opened


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def control_plane(certificate):
    server = StubControlPlane()
    await server.start(tls=server_context(certificate))
    yield server
    await server.stop()


@pytest.mark.parametrize(
    ("host", "trust", "error_type"),
    [
        ("127.0.0.1", "ca_file", None),
        ("localhost", "ca_file", None),
        ("127.0.0.1", "insecure", None),
        ("127.0.0.1", "nothing", ErrorType.CONNECTION),
    ],
)
async def test_a_certificate_is_checked_as_configured(control_plane, certificate, host, trust, error_type):
    tls = {"ca_file": {"ca_file": certificate}, "insecure": {"insecure_skip_verify": True}, "nothing": {}}
    url = f"https://{host}:{control_plane.port}"
    async with opened(control_plane, endpoint=url, tls=tls[trust]) as provider:
        reading = await provider.read_status(ID)
    assert reading.error_type is error_type
    assert reading.state is (SandboxState.RUNNING if error_type is None else None)
    assert bool(control_plane.seen) == (error_type is None)
