"""The registry alone, on a clock that the test moves."""

import pytest

from sandgauge_demo.deployment import (
    Runtime,
    SandboxChanges,
    SandboxSpec,
    SandboxState,
    SimulatedDeployment,
    SimulatedNode,
    UnknownSandboxError,
    WrongStateError,
)


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def deployment(clock):
    return SimulatedDeployment(clock=clock, nodes=[SimulatedNode(name="a"), SimulatedNode(name="b")])


def test_nodes_take_turns_unless_one_is_named(deployment):
    created = [deployment.create(SandboxSpec(node=node)) for node in (None, None, None, "b")]
    assert [sandbox.node.name for sandbox in created] == ["a", "b", "a", "b"]
    assert len({sandbox.address for sandbox in created}) == 4


def test_an_id_is_taken_once(deployment):
    deployment.create(SandboxSpec(id="x"))
    with pytest.raises(WrongStateError, match="x"):
        deployment.create(SandboxSpec(id="x"))


def test_an_expired_sandbox_is_gone_and_said_so(deployment, clock):
    changed = []
    deployment.create(SandboxSpec(id="short", timeout_s=60))
    deployment.create(SandboxSpec(id="long"))
    deployment.subscribe(changed.append)
    clock.now += 59.9
    assert [sandbox.id for sandbox in deployment.newest_first()] == ["long", "short"]
    clock.now += 0.1
    assert [sandbox.id for sandbox in deployment.newest_first()] == ["long"]
    assert changed == ["short"]
    with pytest.raises(UnknownSandboxError):
        deployment.get("short")


def test_expire_ends_it_now(deployment):
    deployment.create(SandboxSpec(id="x"))
    deployment.expire("x")
    assert deployment.find("x") is None


def test_pause_and_resume_need_the_state_before(deployment):
    deployment.create(SandboxSpec(id="x"))
    with pytest.raises(WrongStateError):
        deployment.resume("x")
    deployment.pause("x")
    with pytest.raises(WrongStateError):
        deployment.pause("x")
    deployment.resume("x")
    assert (deployment.get("x").state, deployment.get("x").node.name) == (SandboxState.RUNNING, "a")


def test_a_resumed_pod_moves_and_a_container_stays(deployment):
    deployment.create(SandboxSpec(id="pod", runtime=Runtime.KUBERNETES, node="b"))
    deployment.pause("pod")
    deployment.resume("pod")
    assert deployment.get("pod").node.name == "a"


def test_an_end_keeps_the_record(deployment, clock):
    deployment.create(SandboxSpec(id="fine"))
    deployment.create(SandboxSpec(id="killed"))
    clock.now += 5
    deployment.end("fine")
    deployment.end("killed", exit_code=137, oom_killed=True)
    fine, killed = deployment.get("fine"), deployment.get("killed")
    assert (fine.state, killed.state) == (SandboxState.TERMINATED, SandboxState.FAILED)
    assert (killed.exit_code, killed.oom_killed, killed.state_since) == (137, True, 1_005.0)


def test_a_change_keeps_what_it_does_not_name(deployment):
    before = deployment.create(SandboxSpec(id="x", limits={"cpu": "1"}, requests={"cpu": "500m"}))
    after = deployment.change("x", SandboxChanges(limits={"cpu": "2"}))
    assert (after.limits, after.components[0].requests) == ({"cpu": "2"}, {"cpu": "500m"})
    assert (after.state_since, after.usage, after.created_at) == (before.state_since, before.usage, before.created_at)


@pytest.mark.parametrize("what", ["get", "delete", "pause", "resume", "end", "expire"])
def test_everything_needs_a_sandbox_that_is_there(deployment, what):
    with pytest.raises(UnknownSandboxError):
        getattr(deployment, what)("nosuch")


def test_secrets_are_not_in_the_repr(deployment):
    sandbox = deployment.create(SandboxSpec(environment={"API_KEY": "hidden-1"}, secure_access_token="hidden-2"))
    assert "hidden" not in repr(sandbox)
