import ipaddress
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from sandgauge_poller.reading.opensandbox.endpoints import (
    EndpointPolicy,
    NotAllowed,
    ServerProxy,
    Target,
    endpoint_headers,
)

ID = "92627880-8da7-4694-9127-d746bd54391a"
ALLOWED = ("10.0.0.0/8", "fd00::/8", "192.0.2.7/32", "sandboxes.example.com")


def resolve(endpoint: object, *, control_plane: str = "http://127.0.0.1:8080", allowed=ALLOWED, headers: object = None):
    answer = {"endpoint": endpoint} if headers is None else {"endpoint": endpoint, "headers": headers}
    return EndpointPolicy(control_plane, allowed).resolve(json.dumps(answer).encode(), ID)


def url_of(target: Target) -> str:
    url = URL(f"{'https' if target.origin.is_tls else 'http'}://{target.authority}{target.path}", encoded=True)
    assert (url.host, url.port) == (target.origin.host, target.origin.port)
    return str(url)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        # Docker: the short path of execd itself
        ("127.0.0.1:41527/proxy/44772", "http://127.0.0.1:41527/metrics"),
        ("127.0.0.1:41527/proxy/44772/", "http://127.0.0.1:41527/metrics"),
        # Kubernetes: the pod
        ("10.42.0.17:44772", "http://10.42.0.17:44772/metrics"),
        ("[fd00::17]:44772", "http://[fd00::17]:44772/metrics"),
        ("[FD00:0::17]:44772", "http://[fd00::17]:44772/metrics"),
        # gateways: by name, by path, by header
        (f"{ID}-44772.sandboxes.example.com", f"http://{ID}-44772.sandboxes.example.com/metrics"),
        (f"gw.Sandboxes.Example.com:8443/{ID}/44772", f"http://gw.sandboxes.example.com:8443/{ID}/44772/metrics"),
        ("sandboxes.example.com", "http://sandboxes.example.com/metrics"),
        ("192.0.2.7", "http://192.0.2.7/metrics"),
        # a longer path is the gateway's, not execd's
        ("127.0.0.1:41527/a/proxy/44772", "http://127.0.0.1:41527/a/proxy/44772/metrics"),
        ("127.0.0.1:41527/proxy/8080", "http://127.0.0.1:41527/proxy/8080/metrics"),
    ],
)
def test_forms_of_endpoints(endpoint, url):
    found = resolve(endpoint)
    assert isinstance(found, Target)
    assert url_of(found) == url


@pytest.mark.parametrize(
    ("control_plane", "endpoint", "url"),
    [
        ("https://osb.example.com", "osb.example.com/x/44772", "https://osb.example.com/x/44772/metrics"),
        ("https://osb.example.com", "OSB.example.com:8443", "https://osb.example.com:8443/metrics"),
        ("https://osb.example.com", "10.0.0.7:44772", "http://10.0.0.7:44772/metrics"),
        ("https://192.0.2.9:8443", "192.0.2.9:41527/proxy/44772", "http://192.0.2.9:41527/metrics"),
        ("http://localhost:8080", "127.0.0.1:41527/proxy/44772", "http://127.0.0.1:41527/metrics"),
        ("http://127.0.0.1:8080", "localhost:41527", "http://localhost:41527/metrics"),
        ("http://[::1]:8080", "127.0.0.1:41527", "http://127.0.0.1:41527/metrics"),
        ("http://[2001:db8::1]", "[2001:DB8::0:1]:41527", "http://[2001:db8::1]:41527/metrics"),
        ("http://192.0.2.9", "[::ffff:192.0.2.9]:41527", "http://192.0.2.9:41527/metrics"),
    ],
)
def test_the_control_planes_own_host_is_allowed_and_a_name_speaks_as_it_does(control_plane, endpoint, url):
    found = resolve(endpoint, control_plane=control_plane)
    assert isinstance(found, Target)
    assert url_of(found) == url


@pytest.mark.parametrize(
    "endpoint",
    [
        f"127.0.0.1:18480/v1/sandboxes/{ID}/proxy/44772",
        f"127.0.0.1:18480/sandboxes/{ID}/proxy/44772",
        f"public.example.net/osb/v1/sandboxes/{ID}/proxy/44772",
    ],
)
def test_the_control_planes_own_proxy_is_never_taken_for_a_daemon(endpoint):
    assert resolve(endpoint) == ServerProxy()


@pytest.mark.parametrize(
    "host",
    [
        "11.0.0.1",
        "192.0.2.8",
        "169.254.169.254",
        "[::ffff:11.0.0.1]",
        "[fe80::1]",
        "[::1]",
        "example.com",
        "evilsandboxes.example.com",
        "sandboxes.example.com.evil.net",
        "sandboxes.example.co",
        "10.0.0.1.evil.net",
        "0.0.0.0",
    ],
)
def test_hosts_that_nobody_allowed(host):
    found = resolve(f"{host}:44772", control_plane="http://192.0.2.9:8080")
    assert isinstance(found, NotAllowed)
    assert found.host is not None


def test_a_mapped_address_obeys_the_rules_for_ipv4():
    everything_six = ("::/0",)
    assert isinstance(resolve("[::ffff:169.254.169.254]:80", allowed=everything_six), NotAllowed)
    assert isinstance(resolve("[::ffff:10.0.0.1]:80"), Target)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "/",
        ":44772",
        "http://10.0.0.1:44772",
        "https://10.0.0.1",
        "file:///etc/passwd",
        "//10.0.0.1",
        "10.0.0.1@evil.net",
        "user:password@10.0.0.1:44772",
        "evil.net#10.0.0.1",
        "evil.net?10.0.0.1",
        "evil.net\\10.0.0.1",
        "10.0.0.1:44772/a?b=c",
        "10.0.0.1:44772/a#b",
        "10.0.0.1:44772/../v1/sandboxes",
        "10.0.0.1:44772/a/..",
        "10.0.0.1:44772/./a",
        "10.0.0.1:44772/.",
        "10.0.0.1:44772/%2e%2e/a",
        "10.0.0.1:44772//evil.net",
        "10.0.0.1:44772/a//",
        "10.0.0.1:44772/a;b",
        "10.0.0.1:44772/a b",
        "10.0.0.1:44772 ",
        " 10.0.0.1:44772",
        "10.0.0.1:44772\r\nX-Evil: 1",
        "10.0.0.1:44772/a\r\nX-Evil: 1",
        "10.0.0.1:44772\n",
        "10.0.0.1:44772/\x00",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "10.0.0.1:99999999",
        "10.0.0.1:-1",
        "10.0.0.1:+80",
        "10.0.0.1:\uff14\uff14\uff17\uff17\uff12",
        "10.0.0.1:",
        "10.0.0.1:44772:1",
        # what a resolver takes for an address although it does not look like one
        "10.1",
        "167772161",
        "0xa000001",
        "0xA.0.0.1",
        "012.0.0.1",
        "10.0.0.01",
        "10.0.0.256",
        "10.0.0.0x1",
        "sandboxes.example.com.1",
        "10.0.0.1.",
        "sandboxes.example.com.",
        ".sandboxes.example.com",
        "a..sandboxes.example.com",
        "-a.sandboxes.example.com",
        "a" * 64 + ".sandboxes.example.com",
        "\uff53andboxes.example.com",
        "bücher.sandboxes.example.com",
        "fd00::17",
        "[fd00::17",
        "fd00::17]",
        "[fd00::17%eth0]:44772",
        "[fd00::17%25eth0]:44772",
        "[10.0.0.1]:44772x",
        "[sandboxes.example.com]",
        "[]:44772",
        "10.0.0.1/" + "a" * 3000,
    ],
)
def test_what_is_no_endpoint_is_not_allowed(endpoint):
    assert resolve(endpoint) == NotAllowed(None)


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"endpoint":null}', b'{"endpoint":["10.0.0.1"]}', b"10.0.0.1"])
def test_other_answers_are_not_recognized(answer):
    assert EndpointPolicy("http://127.0.0.1:8080", ALLOWED).resolve(answer, ID) is None


def test_headers_belong_to_the_target_and_are_not_shown():
    headers = {"OpenSandbox-Secure-Access": "t0ken", "OpenSandbox-Ingress-To": f"{ID}-44772"}
    found = resolve("10.0.0.1", headers=headers)
    assert isinstance(found, Target)
    assert dict(found.headers) == headers
    assert "t0ken" not in repr(found)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.net"},
        {"Content-Length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Expect": "100-continue"},
        {"Cookie": "a=b"},
        {"Authorization": "Bearer x"},
        {"OPEN-SANDBOX-API-KEY": "x"},
        {"X-A\r\nHost": "evil.net"},
        {"X-A": "b\r\nHost: evil.net"},
        {"X-A": "b\n"},
        {"X-A": "\x00"},
        {"X-A": "ü"},
        {"X-A": " b"},
        {"X-A": ""},
        {"X-A": 7},
        {"X-A": None},
        {"X-": "b"},
        {"": "b"},
        {"X-A": "b" * 5000},
        {f"X-{n}": "b" for n in range(17)},
        ["X-A", "b"],
        "X-A: b",
    ],
)
def test_headers_that_could_change_the_request_are_refused_with_their_endpoint(headers):
    assert resolve("10.0.0.1:44772", headers=headers) == NotAllowed(None)
    assert endpoint_headers(json.dumps({"endpoint": "x", "headers": headers}).encode()) is None


def test_headers_may_be_missing_or_null():
    assert endpoint_headers(b'{"endpoint":"x"}') == ()
    assert endpoint_headers(b'{"endpoint":"x","headers":null}') == ()
    assert endpoint_headers(b"nothing") == ()


HOSTS = st.sampled_from(
    ["10.0.0.1", "127.0.0.1", "[::1]", "evil.net", "sandboxes.example.com", "0x7f", "2130706433", ""]
)
JUNK = st.text("@:/.#?\\%[]-x7\r\n \u2024\uff0e", max_size=4)


@given(st.one_of(st.text(), st.tuples(HOSTS, JUNK, HOSTS, JUNK).map("".join)))
def test_whatever_the_answer_only_allowed_hosts_are_called(endpoint):
    found = resolve(endpoint)
    if not isinstance(found, Target):
        return
    url = URL(url_of(found), encoded=True)
    assert url.scheme == "http"
    assert url.user is None
    assert url.raw_query_string == ""
    assert url.raw_path.endswith("/metrics")
    assert ".." not in url.raw_path.split("/")
    assert url.host is not None
    assert "\r" not in str(url)
    try:
        address = ipaddress.ip_address(url.host)
    except ValueError:
        assert url.host == "localhost" or f".{url.host}".endswith(".sandboxes.example.com")
    else:
        networks = [ipaddress.ip_network(rule) for rule in ALLOWED[:3]]
        assert address.is_loopback or any(address in network for network in networks)
