"""Names of control planes, and addresses."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.config import ListenAddress, scope_identity
from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_poller.config.urls import (
    parse_control_plane,
    parse_docker_daemon,
    parse_host_rule,
    parse_listen_address,
    parse_scope,
)


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("HTTP://OSB.Example.com:80/v1/", "http://osb.example.com"),
        ("https://osb:443//", "https://osb"),
        ("https://osb:80", "https://osb:80"),
        ("http://user:pass@osb/base/v1?a=b#c", "http://osb/base"),
        ("http://osb/V1", "http://osb/V1"),
        ("http://osb/v1/v1", "http://osb"),
        ("http://osb/av1", "http://osb/av1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("http://osb:", "http://osb"),
        ("osb:8080", None),
        ("osb", None),
        ("", None),
        ("http://", None),
        ("http://osb:port", None),
        ("http://[::1", None),
        ("http://osb\n", None),
        ("unix:///var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("UNIX:/var/run/v1/", "unix:///var/run/v1/"),
        ("unix://var/run/docker.sock", None),
    ],
)
def test_scope_identity(url: str, identity: str | None) -> None:
    assert scope_identity(url) == identity


@given(st.text() | st.text(alphabet="htp:/v1[]@?#%.a0 ").map(lambda text: f"http://{text}"))
def test_scope_identity_takes_any_text_and_is_settled_at_once(url: str) -> None:
    identity = scope_identity(url)
    assert identity is None or scope_identity(identity) == identity


@given(st.text() | st.text(alphabet="htp:/v1[]@?#%.a0 ").map(lambda text: f"http://{text}"))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for parse in (parse_control_plane, parse_docker_daemon, parse_listen_address, parse_host_rule, parse_scope):
        with contextlib.suppress(InvalidValueError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("unix:///var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("http://docker-proxy:2375/", "http://docker-proxy:2375"),
        ("HTTPS://Docker.example:443/v1", "https://docker.example"),
    ],
)
def test_docker_daemon(text: str, identity: str) -> None:
    assert parse_docker_daemon(text) == parse_scope(text) == scope_identity(identity) == identity


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("/var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("unix://var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("unix:/var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("unix:///var/run/docker.sock?a=b", "unix:///var/run/docker.sock"),
        ("unix:///var/run/docker sock", "unix:///var/run/docker.sock"),
        ("tcp://127.0.0.1:2376", "https://"),
        ("ssh://user@host", "unix:///var/run/docker.sock"),
        ("https://user:hunter2@host:2376", "certificate"),
        ("", "unix:///var/run/docker.sock"),
    ],
)
def test_no_docker_daemon(text: str, cure: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_docker_daemon(text)
    assert cure in caught.value.cure
    assert "hunter2" not in f"{caught.value.reason}{caught.value.cure}"


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:4319", ListenAddress("127.0.0.1", 4319), True),
        ("127.9.9.9:0", ListenAddress("127.9.9.9", 0), True),
        ("[::1]:4319", ListenAddress("::1", 4319), True),
        ("Localhost:4319", ListenAddress("localhost", 4319), True),
        ("0.0.0.0:4319", ListenAddress("0.0.0.0", 4319), False),
        ("[::]:4319", ListenAddress("::", 4319), False),
        ("poller:4319", ListenAddress("poller", 4319), False),
    ],
)
def test_listen_address(text: str, address: ListenAddress, loopback: bool) -> None:
    assert parse_listen_address(text) == address
    assert address.is_loopback is loopback
    assert parse_listen_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", ":4319", "localhost", "localhost:", "localhost:70000", "::1:4319", "[x]:1", "http://a:1", "a b:1", "a:1/x"],
)
def test_no_listen_address(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_listen_address(text)


@pytest.mark.parametrize(
    ("listen", "url", "same"),
    [
        ("127.0.0.1:4319", "http://localhost:4319", True),
        ("0.0.0.0:4319", "http://127.0.0.1:4319", True),
        ("poller:80", "http://poller", True),
        ("127.0.0.1:4319", "http://127.0.0.1:4318", False),
        ("127.0.0.1:4319", "http://collector:4319", False),
        ("10.0.0.1:4319", "http://127.0.0.1:4319", False),
    ],
)
def test_whether_a_url_leads_to_a_listen_address(listen: str, url: str, same: bool) -> None:
    assert parse_listen_address(listen).is_at(url) is same


@pytest.mark.parametrize(
    "text", ["", "*.example.com", "http://a", "a:1", "10.0.0.0/33", "10.0.0.1/8", "a/b", "a b", "."]
)
def test_no_host_rule(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_host_rule(text)
