"""The simulated server beside what the real one was seen to answer: status, header names, body shape."""

import re

import pytest

from sandgauge_demo.deployment import API_KEY_HEADER, Runtime, SandboxSpec, SandboxState

ID = "92627880-8da7-4694-9127-d746bd54391a"
EMPTY = {"server", "content-length", "vary", "x-request-id", "date"}
FULL = EMPTY | {"content-type"}
JSON, TEXT, GO_JSON = "application/json", "text/plain; charset=utf-8", "application/json; charset=utf-8"

SPEC = {
    "image": {"uri": "local/sb:1"},
    "timeout": 3600,
    "resourceLimits": {"cpu": "500m", "memory": "128Mi"},
    "entrypoint": ["sh", "-c", "sleep 600"],
    "metadata": {"team": "rl"},
    "env": {"A": "b"},
}


def shape(value):
    """Replace every value by its type, so that only the form of an answer is compared."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__


STATUS = {"state": "str", "reason": "str", "message": "str", "lastTransitionAt": "str"}
CREATED = {
    "id": "str",
    "status": STATUS,
    "metadata": {"team": "str"},
    "entrypoint": ["str"],
    "expiresAt": "str",
    "createdAt": "str",
}
SANDBOX = {**CREATED, "image": {"uri": "str"}}
PAGINATION = {"page": "int", "pageSize": "int", "totalItems": "int", "totalPages": "int", "hasNextPage": "bool"}
ERROR = {"code": "str", "message": "str"}
INVALID = {"detail": [{"type": "str", "loc": ["str", "str"], "msg": "str", "input": "str", "ctx": {"le": "int"}}]}
READING = {
    "cpu_count": "int",
    "cpu_used_pct": "float",
    "mem_total_mib": "float",
    "mem_used_mib": "float",
    "timestamp": "int",
}
ONE = f"/v1/sandboxes/{ID}"

TRANSCRIPTS = [
    ("GET", "/health", 200, FULL, JSON, {"status": "str"}),
    ("GET", "/version", 200, FULL, JSON, {"version": "str"}),
    ("GET", ONE, 200, FULL, JSON, SANDBOX),
    ("GET", f"/sandboxes/{ID}", 200, FULL, JSON, SANDBOX),
    ("GET", "/v1/sandboxes?pageSize=1", 200, FULL, JSON, {"items": [SANDBOX], "pagination": PAGINATION}),
    ("GET", "/v1/sandboxes?state=PAUSED", 200, FULL, JSON, {"items": [], "pagination": PAGINATION}),
    ("GET", "/v1/sandboxes?pageSize=500", 422, FULL, JSON, INVALID),
    ("GET", "/v1/sandboxes?metadata=broken", 400, FULL, JSON, ERROR),
    ("GET", "/v1/sandboxes/nosuch", 404, FULL, JSON, ERROR),
    ("GET", "/v1/nosuch", 404, FULL, JSON, {"detail": "str"}),
    ("GET", f"{ONE}/endpoints/44772", 200, FULL, JSON, {"endpoint": "str"}),
    ("GET", f"{ONE}/endpoints/44772?use_server_proxy=true", 200, FULL, JSON, {"endpoint": "str"}),
    ("GET", f"{ONE}/diagnostics/inspect", 200, FULL, TEXT, None),
    ("GET", f"{ONE}/proxy/44772/ping", 200, EMPTY, None, None),
    ("GET", f"{ONE}/proxy/44772/metrics", 200, FULL, GO_JSON, READING),
    ("GET", f"{ONE}/proxy/44772/metrics?x=1", 200, FULL, GO_JSON, READING),
    ("HEAD", f"{ONE}/proxy/44772/metrics", 405, FULL | {"allow"}, JSON, None),
    ("POST", f"{ONE}/proxy/44772/metrics", 404, FULL, "text/plain", None),
    ("GET", f"{ONE}/proxy/44772/nosuch", 404, FULL, "text/plain", None),
    ("GET", f"{ONE}/proxy/9999/metrics", 502, FULL, JSON, ERROR),
    ("POST", f"{ONE}/pause", 202, EMPTY, None, None),
    ("POST", f"{ONE}/resume", 409, FULL, JSON, ERROR),
    ("DELETE", ONE, 204, EMPTY - {"content-length"}, None, None),
]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda row: f"{row[0]} {row[1]}")
async def test_an_answer_has_the_form_of_the_real_one(start_osb, http, transcript):
    method, path, status, headers, content_type, body = transcript
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id=ID, timeout_s=3600, metadata={"team": "rl"}, entrypoint=("sh",)))
    async with http.request(method, osb.url + path) as answer:
        assert answer.status == status
        assert {name.lower() for name in answer.headers} == headers
        assert answer.headers.get("Content-Type") == content_type
        if body is not None:
            assert shape(await answer.json()) == body


async def test_a_created_sandbox_is_shown_without_its_resources(start_osb, http):
    osb = await start_osb()
    async with http.post(f"{osb.url}/v1/sandboxes", json=SPEC) as answer:
        created = await answer.json()
    assert (answer.status, shape(created)) == (202, {**CREATED, "entrypoint": ["str"] * 3})
    assert created["status"]["state"] == "Running"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", created["createdAt"])
    assert osb.deployment.get(created["id"]).limits == SPEC["resourceLimits"]


@pytest.mark.parametrize("missing", ["image", "resourceLimits", "entrypoint"])
async def test_a_create_call_without_a_needed_field_is_refused_by_the_framework(start_osb, http, missing):
    osb = await start_osb()
    async with http.post(
        f"{osb.url}/v1/sandboxes", json={name: SPEC[name] for name in SPEC if name != missing}
    ) as answer:
        detail = (await answer.json())["detail"]
    assert (answer.status, detail[0]["loc"]) == (422, ["body"])


async def test_a_sandbox_without_expiry_has_no_such_key(start_osb, http):
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id=ID))
    async with http.get(osb.url + ONE) as answer:
        assert "expiresAt" not in await answer.json()


@pytest.mark.parametrize(
    ("key", "path", "expected"),
    [
        (None, ONE, (401, "MISSING_API_KEY")),
        ("wrong", ONE, (401, "INVALID_API_KEY")),
        (None, f"{ONE}/endpoints/44772", (401, "MISSING_API_KEY")),
        (None, f"{ONE}/proxy/44772/metrics", (200, None)),
        (None, "/health", (200, None)),
        (None, "/version", (200, None)),
    ],
)
async def test_everything_needs_the_key_but_proxied_paths(start_osb, http, key, path, expected):
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id=ID))
    headers = {API_KEY_HEADER: key or ""}
    async with http.get(osb.url + path, headers=headers) as answer:
        assert (answer.status, (await answer.json()).get("code")) == expected


async def test_proxied_paths_need_the_key_where_something_in_front_asks_for_it(start_osb, http):
    osb = await start_osb(proxy_needs_key=True)
    osb.deployment.create(SandboxSpec(id=ID))
    async with http.get(f"{osb.url}{ONE}/proxy/44772/metrics", headers={API_KEY_HEADER: ""}) as answer:
        assert answer.status == 401
    async with http.get(f"{osb.url}{ONE}/proxy/44772/metrics") as answer:
        assert answer.status == 200


async def test_the_request_id_comes_back(start_osb, http):
    osb = await start_osb()
    async with http.get(f"{osb.url}/health", headers={"X-Request-ID": "rid-1"}) as answer:
        assert answer.headers["X-Request-ID"] == "rid-1"
    async with http.get(f"{osb.url}/health") as answer:
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-ID"])


async def test_a_list_is_paged_newest_first_and_filtered(start_osb, http):
    osb = await start_osb()
    for number in range(5):
        osb.deployment.create(SandboxSpec(id=f"sb-{number}", metadata={"odd": str(number % 2), "rig": "a b"}))
    osb.deployment.pause("sb-4")

    async def ids(query):
        async with http.get(f"{osb.url}/v1/sandboxes?{query}") as answer:
            page = await answer.json()
        return [item["id"] for item in page["items"]], page["pagination"]

    assert await ids("page=2&pageSize=2") == (
        ["sb-2", "sb-1"],
        {"page": 2, "pageSize": 2, "totalItems": 5, "totalPages": 3, "hasNextPage": True},
    )
    assert (await ids("page=3&pageSize=2"))[1]["hasNextPage"] is False
    assert (await ids("state=paused"))[0] == ["sb-4"]
    assert (await ids("state=Running&state=Paused&metadata=odd%3D0%26rig%3Da%20b"))[0] == ["sb-4", "sb-2", "sb-0"]


@pytest.mark.parametrize(
    ("sandbox", "path", "expected"),
    [
        (
            (Runtime.DOCKER, SandboxState.FAILED),
            "proxy/44772/metrics",
            (500, "DOCKER::NETWORK_MODE_ENDPOINT_UNAVAILABLE"),
        ),
        ((Runtime.DOCKER, SandboxState.PENDING), "endpoints/44772", (500, "DOCKER::NETWORK_MODE_ENDPOINT_UNAVAILABLE")),
        ((Runtime.KUBERNETES, SandboxState.PENDING), "endpoints/44772", (404, "KUBERNETES::POD_IP_NOT_AVAILABLE")),
        ((Runtime.KUBERNETES, SandboxState.PENDING), "proxy/44772/metrics", (404, "KUBERNETES::POD_IP_NOT_AVAILABLE")),
        ((Runtime.KUBERNETES, SandboxState.PAUSED), "diagnostics/inspect", (404, "KUBERNETES::SANDBOX_NOT_FOUND")),
        ((Runtime.DOCKER, SandboxState.PAUSED), "diagnostics/inspect", (200, None)),
        ((Runtime.DOCKER, SandboxState.TERMINATED), "diagnostics/inspect", (200, None)),
    ],
)
async def test_states_show_in_the_answers(start_osb, http, sandbox, path, expected):
    runtime, state = sandbox
    osb = await start_osb(runtime=runtime)
    osb.deployment.create(SandboxSpec(id=ID, state=state))
    async with http.get(f"{osb.url}{ONE}/{path}") as answer:
        found = (await answer.json())["code"] if answer.content_type == JSON else None
        assert (answer.status, found) == expected


@pytest.mark.parametrize("runtime", list(Runtime))
async def test_a_missing_sandbox_is_reported_in_the_words_of_the_runtime(start_osb, http, runtime):
    osb = await start_osb(runtime=runtime)
    prefix = {"docker": "DOCKER", "kubernetes": "KUBERNETES", "fast-sandbox": "FSB"}[runtime]
    for path in (ONE, f"{ONE}/diagnostics/inspect", f"{ONE}/endpoints/44772", f"{ONE}/proxy/44772/metrics"):
        async with http.get(osb.url + path) as answer:
            assert (answer.status, (await answer.json())["code"]) == (404, f"{prefix}::SANDBOX_NOT_FOUND")
