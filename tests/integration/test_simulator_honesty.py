"""The simulated deployment answers as the real one does, on Docker: one suite of requests goes to both."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandgauge_demo.deployment import API_KEY_HEADER, DeploymentSettings
from support.answer_shape import Shape
from support.compared_deployment import SPEC, ComparedDeployment, RealDeployment, SimulatedTwin
from support.opensandbox_server import API_KEY, OpenSandboxServer
from support.simulated_osb import osb_in_thread

pytestmark = pytest.mark.integration

Answers = dict[str, Shape | None]

STATES = ("running", "paused", "exited 0", "exited 1", "deleted", "unknown", "execd killed", "execd stopped")
OF_A_SANDBOX = {
    "sandbox": "/v1/sandboxes/{id}",
    "sandbox without version": "/sandboxes/{id}",
    "inspect": "/v1/sandboxes/{id}/diagnostics/inspect",
    "endpoint": "/v1/sandboxes/{id}/endpoints/44772",
    "endpoint through the server": "/v1/sandboxes/{id}/endpoints/44772?use_server_proxy=true",
    "endpoint of another port": "/v1/sandboxes/{id}/endpoints/9",
    "proxied metrics": "/v1/sandboxes/{id}/proxy/44772/metrics",
    "proxied ping": "/v1/sandboxes/{id}/proxy/44772/ping",
    "proxied nonsense": "/v1/sandboxes/{id}/proxy/44772/nonsense",
    "proxied wrong port": "/v1/sandboxes/{id}/proxy/9/metrics",
    "proxied port out of range": "/v1/sandboxes/{id}/proxy/70000/metrics",
    "endpoint of no port": "/v1/sandboxes/{id}/endpoints/execd",
    "endpoint through perhaps": "/v1/sandboxes/{id}/endpoints/44772?use_server_proxy=perhaps",
}
DIRECT = {
    "direct metrics": "/{prefix}/metrics",
    "short direct metrics": "/metrics",
    "direct ping": "/ping",
    "direct nonsense": "/nonsense",
}

NO_KEY: dict[str, str] = {}
KEY = {API_KEY_HEADER: API_KEY}
JSON = "application/json"
WRONG_KEY = {API_KEY_HEADER: "another"}
OF_THE_SERVER = {
    "health": ("GET", "/health", {}),
    "health without a key": ("GET", "/health", {"headers": NO_KEY}),
    "version without a key": ("GET", "/version", {"headers": NO_KEY}),
    "list": ("GET", "/v1/sandboxes?state=Running&pageSize=1", {}),  # whichever is the newest, it looks alike
    "list of nothing": ("GET", "/v1/sandboxes?metadata=team%3Dnobody", {}),
    "list by state": ("GET", "/v1/sandboxes?state=Paused&metadata=team%3Drl&pageSize=1", {}),
    "list without a key": ("GET", "/v1/sandboxes", {"headers": NO_KEY}),
    "list with a wrong key": ("GET", "/v1/sandboxes", {"headers": WRONG_KEY}),
    "page size too large": ("GET", "/v1/sandboxes?pageSize=201", {}),
    "page size of nothing": ("GET", "/v1/sandboxes?pageSize=0", {}),
    "page size of words": ("GET", "/v1/sandboxes?pageSize=many", {}),
    "page before the first": ("GET", "/v1/sandboxes?page=0", {}),
    "page after the last": ("GET", "/v1/sandboxes?page=1000", {}),
    "metadata of no form": ("GET", "/v1/sandboxes?metadata=team", {}),
    "nowhere": ("GET", "/v1/nowhere", {}),
    "wrong method": ("PUT", "/v1/sandboxes", {}),
    "no page and no size": ("GET", "/v1/sandboxes?page=&pageSize=", {}),
    "version below v1": ("GET", "/v1/version", {}),
    "create from no body": ("POST", "/v1/sandboxes", {}),
    "create from no JSON": ("POST", "/v1/sandboxes", {"data": b"{", "headers": {**KEY, "Content-Type": JSON}}),
    "create from a text": ("POST", "/v1/sandboxes", {"data": b"{}", "headers": {**KEY, "Content-Type": "text/plain"}}),
    "create from a list": ("POST", "/v1/sandboxes", {"json": [1]}),
    "create from nothing": ("POST", "/v1/sandboxes", {"json": {}}),
    "create without an entrypoint": ("POST", "/v1/sandboxes", {"json": {"image": SPEC["image"]}}),
    "create with an empty entrypoint": ("POST", "/v1/sandboxes", {"json": {**SPEC, "entrypoint": []}}),
    "create without limits": ("POST", "/v1/sandboxes", {"json": {**SPEC, "resourceLimits": None}}),
    "create for a moment": ("POST", "/v1/sandboxes", {"json": {**SPEC, "timeout": 10}}),
    "create with a number as metadata": ("POST", "/v1/sandboxes", {"json": {**SPEC, "metadata": {"a": 1}}}),
    "pause nobody": ("POST", "/v1/sandboxes/nobody/pause", {}),
    "resume nobody": ("POST", "/v1/sandboxes/nobody/resume", {}),
    "delete nobody": ("DELETE", "/v1/sandboxes/nobody", {}),
    "sandbox without a key": ("GET", "/v1/sandboxes/nobody", {"headers": NO_KEY}),
    "proxied metrics of nobody without a key": (
        "GET",
        "/v1/sandboxes/nobody/proxy/44772/metrics",
        {"headers": NO_KEY},
    ),
}
ONE_AFTER_THE_OTHER = ("create", "pause", "pause again", "resume", "resume again", "delete", "delete again")


@pytest.fixture(scope="module")
def real_answers(opensandbox_server: OpenSandboxServer) -> Answers:
    deployment = RealDeployment(opensandbox_server)
    try:
        return answers(deployment)
    finally:
        deployment.clear()


@pytest.fixture(scope="module")
def simulated_answers() -> Iterator[Answers]:
    with osb_in_thread(DeploymentSettings(api_key=API_KEY)) as osb:
        yield answers(SimulatedTwin(osb))


def answers(deployment: ComparedDeployment) -> Answers:
    """Ask everything, each state's questions in a thread of their own, and return the answers by question."""
    with ThreadPoolExecutor(len(STATES) + 1) as pool:
        lives = pool.submit(of_a_life, deployment)
        by_state = list(pool.map(lambda state: of_a_state(deployment, state), STATES))
        found = {question: answer for one in by_state for question, answer in one.items()} | lives.result()
    # Only now are there sandboxes to list, and none that comes or goes meanwhile.
    for question, (method, path, arguments) in OF_THE_SERVER.items():
        found[question] = deployment.ask(method, path, **arguments)
    return found


def of_a_state(deployment: ComparedDeployment, state: str) -> Answers:
    sandbox_id = deployment.in_state(state)
    with ThreadPoolExecutor(len(OF_A_SANDBOX) + len(DIRECT)) as pool:  # those without an answer wait side by side
        asked = [
            (f"{state}: {question}", pool.submit(deployment.ask, "GET", path.format(id=sandbox_id)))
            for question, path in OF_A_SANDBOX.items()
        ]
        asked += [
            (f"{state}: {question}", pool.submit(deployment.ask_directly, sandbox_id, path))
            for question, path in DIRECT.items()
        ]
        return {question: answer.result() for question, answer in asked}


def of_a_life(deployment: ComparedDeployment) -> Answers:
    one = f"/v1/sandboxes/{deployment.create()}"
    found: Answers = {"create": deployment.ask("POST", "/v1/sandboxes", json=SPEC, timeout=60)}
    for step in ONE_AFTER_THE_OTHER[1:]:
        word = step.split()[0]
        method, path = ("DELETE", one) if word == "delete" else ("POST", f"{one}/{word}")
        found[step] = deployment.ask(method, path, timeout=60)
    return found


QUESTIONS = [
    *(f"{state}: {question}" for state in STATES for question in (*OF_A_SANDBOX, *DIRECT)),
    *ONE_AFTER_THE_OTHER,
    *OF_THE_SERVER,
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_answer_alike(real_answers: Answers, simulated_answers: Answers, question: str):
    assert simulated_answers[question] == real_answers[question]
