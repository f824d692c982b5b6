"""The doctor before a real control plane: the right key, none, a wrong one, and a sandbox to read."""

import time

import pytest

from sandgauge_poller.config import Config, Deployment
from sandgauge_poller.doctor import live_sandbox
from sandgauge_poller.doctor.control_plane import Running, examine
from support.opensandbox_server import OpenSandboxServer
from support.waiting import wait_until

pytestmark = pytest.mark.integration


def lines(server: OpenSandboxServer, key: str) -> list[str]:
    deployment = Deployment(name="real", endpoint=server.endpoint, api_key=key)
    return [str(finding) for finding in examine(deployment, 60.0, time.time)]


def live_lines(server: OpenSandboxServer, sandbox_id: str) -> list[str]:
    deployment = Deployment(name="real", endpoint=server.endpoint, api_key=server.api_key)
    config = Config(deployments=(deployment,), sampling={"timeout": "10s"}, allocation={"timeout": "10s"})
    return [str(finding) for finding in live_sandbox.examine(deployment, config, Running(1, sandbox_id))]


def test_a_real_control_plane_is_judged_right(opensandbox_server):
    (wrong,) = lines(opensandbox_server, "wrong")
    assert "unauthorized: the control plane refuses the api_key (HTTP 401)" in wrong
    (none,) = lines(opensandbox_server, "")
    assert "unauthorized: the control plane wants an api_key (HTTP 401)" in none
    sandbox_id = opensandbox_server.create("500m", "128Mi")
    try:
        wait_until(
            lambda: lines(opensandbox_server, opensandbox_server.api_key)[-1].endswith("can be read through the proxy"),
            timeout_s=60,
            what="a sandbox that is read",
        )
        well = lines(opensandbox_server, opensandbox_server.api_key)
        live = live_lines(opensandbox_server, sandbox_id)
    finally:
        opensandbox_server.request("DELETE", f"/v1/sandboxes/{sandbox_id}")
    assert all(line.startswith("pass") for line in well)
    assert well[0].endswith("OpenSandbox 1.1.1 lists its sandboxes and takes the api_key")
    direct, whose = live
    assert direct == "pass  deployment real: a running sandbox can be read directly"
    assert whose.startswith("warn  deployment real: the numbers of a running sandbox describe its node (memory ")
