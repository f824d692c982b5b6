"""A Docker daemon over the network: it wants a certificate of whoever asks."""

import ssl

import pytest

from sandgauge_poller.config import Config
from sandgauge_poller.reading.build import open_providers
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import ErrorType
from support.certificate import make_certificate, server_context
from support.stub_docker import NAME, StubDocker


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def docker(certificate):
    context = server_context(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # by 1.3 a client hears of its refusal only with the first answer
    server = StubDocker()
    await server.start(tls=context)
    yield server
    await server.stop()


@pytest.mark.parametrize(
    ("host", "configured", "error_type"),
    [
        ("127.0.0.1", ("ca_file", "cert_file", "key_file"), None),
        ("localhost", ("ca_file", "cert_file", "key_file"), None),
        ("127.0.0.1", ("ca_file",), ErrorType.CONNECTION),
        ("127.0.0.1", ("cert_file", "key_file"), ErrorType.CONNECTION),
    ],
)
async def test_both_sides_show_a_certificate(docker, certificate, host, configured, error_type):
    key = certificate.with_name("key.pem")
    files = {"ca_file": str(certificate), "cert_file": str(certificate), "key_file": str(key)}
    tls = {name: files[name] for name in configured}
    endpoint = f"https://{host}:{docker.port}"
    config = Config.model_validate(
        {"deployments": [{"name": "machine", "provider": "docker", "endpoint": endpoint, "tls": tls}]}
    )
    async with open_providers(config, SYSTEM_CLOCK) as providers:
        status = await providers["machine"].read_status(NAME)
        allocation = await providers["machine"].read_allocation(NAME)
    assert (status.error_type, allocation.error_type) == (error_type, error_type)
    assert status.state is (SandboxState.RUNNING if error_type is None else None)
    if error_type is None:
        assert allocation.allocation.designator.scope == endpoint
