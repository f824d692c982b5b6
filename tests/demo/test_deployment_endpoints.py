"""Where a sandbox is reached: directly by port or gateway, or through the server, and what reaches whom."""

import re

import aiohttp
import pytest

from sandgauge_demo.deployment import API_KEY_HEADER, EndpointForm, Route, Runtime, SandboxSpec

ID = "sb-1"


async def endpoint(osb, http, query=""):
    async with http.get(f"{osb.url}/v1/sandboxes/{ID}/endpoints/44772{query}") as answer:
        return await answer.json()


@pytest.mark.parametrize(
    ("form", "runtime", "pattern", "headers"),
    [
        (EndpointForm.PORT, Runtime.DOCKER, r"127\.0\.0\.1:\d+/proxy/44772", None),
        (EndpointForm.PORT, Runtime.KUBERNETES, r"127\.0\.0\.1:\d+", None),
        (EndpointForm.GATEWAY_PATH, Runtime.KUBERNETES, r"127\.0\.0\.1:\d+/sb-1/44772", None),
        (
            EndpointForm.GATEWAY_HEADER,
            Runtime.KUBERNETES,
            r"127\.0\.0\.1:\d+",
            {"OpenSandbox-Ingress-To": "sb-1-44772"},
        ),
    ],
)
async def test_a_direct_endpoint_names_the_sandbox_and_answers(start_osb, form, runtime, pattern, headers):
    osb = await start_osb(endpoint_form=form, runtime=runtime, api_key=None)
    osb.deployment.create(SandboxSpec(id=ID))
    osb.deployment.create(SandboxSpec(id="sb-2"))
    async with aiohttp.ClientSession() as http:
        described = await endpoint(osb, http)
        assert re.fullmatch(pattern, described["endpoint"])
        assert described.get("headers") == headers
        async with http.get(f"http://{described['endpoint']}/metrics", headers=headers) as answer:
            assert (answer.status, "cpu_count" in await answer.json()) == (200, True)
    assert (osb.journal.count(Route.EXECD, ID), osb.journal.count(Route.EXECD, "sb-2")) == (1, 0)


async def test_a_port_on_docker_answers_the_short_path_too(start_osb, http):
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id=ID))
    address = (await endpoint(osb, http))["endpoint"].split("/")[0]
    for path, status in (("/metrics", 200), ("/proxy/44772/metrics", 200), ("/proxy/44772", 404), ("/ping", 200)):
        async with http.get(f"http://{address}{path}") as answer:
            assert answer.status == status


@pytest.mark.parametrize("mount", ["", "/v1"])
async def test_a_proxied_endpoint_is_on_this_server_below_the_same_mount(start_osb, http, mount):
    osb = await start_osb(endpoint_form=EndpointForm.GATEWAY_HEADER)
    osb.deployment.create(SandboxSpec(id=ID))
    async with http.get(f"{osb.url}{mount}/sandboxes/{ID}/endpoints/44772?use_server_proxy=true") as answer:
        described = await answer.json()
    host = osb.url.removeprefix("http://")
    assert described == {"endpoint": f"{host}{mount}/sandboxes/{ID}/proxy/44772"}
    async with http.get(f"http://{described['endpoint']}/metrics") as answer:
        assert answer.status == 200
    assert (osb.journal.count(Route.PROXY, ID), osb.journal.count(Route.EXECD)) == (1, 0)


async def test_a_gateway_and_the_proxy_ask_for_the_credential_that_the_endpoint_names(start_osb, http):
    osb = await start_osb(endpoint_form=EndpointForm.GATEWAY_PATH, runtime=Runtime.KUBERNETES)
    osb.deployment.create(SandboxSpec(id=ID, secure_access_token="let-me-in"))
    described = await endpoint(osb, http)
    assert described["headers"] == {"OpenSandbox-Secure-Access": "let-me-in"}
    proxied = (await endpoint(osb, http, "?use_server_proxy=true"))["endpoint"]
    for address in (described["endpoint"], proxied):
        async with http.get(f"http://{address}/metrics") as answer:
            assert answer.status == 401
        async with http.get(f"http://{address}/metrics", headers=described["headers"]) as answer:
            assert answer.status == 200


async def test_an_execd_with_a_token_says_so_in_its_own_words(start_osb, http):
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id=ID, environment={"EXECD_ACCESS_TOKEN": "tok"}))
    url = f"{osb.url}/v1/sandboxes/{ID}/proxy/44772/metrics"
    async with http.get(url) as answer:
        assert (answer.status, list(await answer.json())) == (401, ["error"])
    async with http.get(url, headers={"X-EXECD-ACCESS-TOKEN": "tok"}) as answer:
        assert answer.status == 200


async def test_the_journal_tells_which_headers_went_where(start_osb, http):
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id=ID))
    direct = (await endpoint(osb, http))["endpoint"]
    async with (
        aiohttp.ClientSession() as keyless,
        keyless.get(f"http://{direct}/metrics", headers={"OpenSandbox-Access-Renew": "skip"}) as answer,
    ):
        assert answer.status == 200
    (asked,) = osb.journal.requests(Route.ENDPOINT, ID)
    (read,) = osb.journal.requests(Route.EXECD, ID)
    assert API_KEY_HEADER.lower() in asked.headers
    assert API_KEY_HEADER.lower() not in read.headers
    assert read.headers["openSandbox-access-renew".lower()] == "skip"
    assert (read.method, read.path) == ("GET", "/proxy/44772/metrics")


async def test_a_sandbox_that_exists_before_a_gateway_is_asked_is_not_reachable_by_another_id(start_osb, http):
    osb = await start_osb(endpoint_form=EndpointForm.GATEWAY_PATH)
    osb.deployment.create(SandboxSpec(id=ID))
    address = (await endpoint(osb, http))["endpoint"].split("/")[0]
    async with http.get(f"http://{address}/nosuch/44772/metrics") as answer:
        assert answer.status == 502
