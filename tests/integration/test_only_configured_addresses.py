"""Hostile addresses wherever one fits, canaries at every address there is: nothing is called that is not configured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.address_trap import FULL, REDIRECTS
from support.hostile_addresses import ADDRESSES, IN_AN_ENDPOINT
from support.real_parts import require

pytestmark = pytest.mark.integration

NAMESPACE = ("unshare", "--net", "--fork", "--kill-child", "--")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", params=["false", "auto"])
def trapped(request, tmp_path_factory):
    """Run the poller in a network namespace of its own, with `use_server_proxy` as given; return what was seen."""
    try:
        possible = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], check=False).returncode == 0
    except OSError:
        possible = False
    require("network namespace", possible or None, "the test needs root, unshare and ip (Debian: util-linux, iproute2)")
    folder = tmp_path_factory.mktemp("addresses")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [*NAMESPACE, sys.executable, "-m", "support.address_trap", str(folder), request.param]
    subprocess.run(command, check=True, timeout=280, env={**os.environ, "PYTHONPATH": path})
    return request.param, json.loads((folder / "result.json").read_text())


def test_there_are_a_hundred_addresses():
    assert len(ADDRESSES) >= 100


def test_no_canary_is_called_and_no_name_is_looked_up(trapped):
    _, seen = trapped
    assert seen["canaries_work"], "a call to a canary would not have been seen"
    assert seen["canary_calls"] == []


def test_a_sandbox_whose_spans_are_full_of_addresses_is_read_like_any_other(trapped):
    _, seen = trapped
    for sandbox_id in FULL:
        assert set(seen["error_types"][sandbox_id]) == {"ok"}


def test_the_key_is_seen_at_its_own_origin_alone(trapped):
    _, seen = trapped
    assert seen["key_at_control_plane"] > 0
    assert seen["daemon_calls"] > 0
    assert seen["key_elsewhere"] == []


def test_no_redirect_is_followed(trapped):
    way, seen = trapped
    for route in ("diagnostics", "endpoints", "daemon", *(["proxy"] if way == "auto" else [])):
        assert set(seen["redirects_served"][route]) == set(REDIRECTS)
    for status in REDIRECTS:
        assert "redirect" in seen["error_types"][f"redirect-{status}-daemon"]
        told = seen["error_types"][f"redirect-{status}-{'proxy' if way == 'auto' else 'endpoints'}"]
        assert set(told) == {"redirect"}


def test_a_hostile_endpoint_is_not_called_and_the_proxy_taken_where_it_may_be(trapped):
    way, seen = trapped
    expected = {"auto": "ok", "false": "endpoint_not_allowed"}[way]
    for number in range(len(IN_AN_ENDPOINT)):
        assert set(seen["error_types"][f"endpoint-{number}"]) == {expected}, IN_AN_ENDPOINT[number]


def test_nothing_breaks(trapped):
    assert trapped[1]["complaints"] == []
