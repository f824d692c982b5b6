import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.opensandbox.execd import parse_metrics
from sandgauge_poller.reading.provider import Usage
from sandgauge_poller.reading.scope import HostTotals, Observation, Scopes, decide_scopes, memory_limit_mib
from sandgauge_poller.tracking.progress import ScopeDecision
from sandgauge_schemas.names import ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.records import ComponentAllocation
from sandgauge_schemas.resources import SandboxResourceAmounts

NODE, SANDBOX, UNKNOWN = SampleScope.NODE, SampleScope.SANDBOX, SampleScope.UNKNOWN
EVIDENCE = ScopeEvidence


def seen(
    limit: float | None, total: float | None, *, zeros: int = 0, shared: bool = False, source: str = "opensandbox.execd"
) -> Observation:
    return Observation(
        source=ResourceSource(source),
        memory_limit_mib=limit,
        memory_total_mib=total,
        cpu_zeros=zeros,
        shared_total=shared,
    )


SOURCE = ScopeDecision(SANDBOX, EVIDENCE.SOURCE)
EXCEEDS = ScopeDecision(NODE, EVIDENCE.TOTAL_EXCEEDS_LIMIT)
SHARED = ScopeDecision(NODE, EVIDENCE.SHARED_TOTAL)
MATCHES = ScopeDecision(SANDBOX, EVIDENCE.TOTAL_MATCHES_LIMIT)
CONSTANT_ZERO = ScopeDecision(UNKNOWN, EVIDENCE.CONSTANT_ZERO)
NO_LIMIT = ScopeDecision(UNKNOWN, EVIDENCE.NO_LIMIT)
UNDECIDED = ScopeDecision(UNKNOWN, EVIDENCE.UNDECIDED)
TABLE = {
    # what is seen: memory, CPU
    "source": (seen(512, 515_000, source="docker.stats"), SOURCE, SOURCE),
    "source without numbers": (seen(None, None, source="kubernetes.metrics", zeros=9), SOURCE, SOURCE),
    "exceeds": (seen(512, 515_000), EXCEEDS, EXCEEDS),
    "exceeds by a hair": (seen(1000, 1101), EXCEEDS, EXCEEDS),
    "exceeds with zeros": (seen(512, 515_000, zeros=5), EXCEEDS, EXCEEDS),
    "exceeds before shared": (seen(512, 515_000, shared=True), EXCEEDS, EXCEEDS),
    "shared before match": (seen(1000, 1000, shared=True), SHARED, SHARED),
    "shared far below": (seen(9000, 1000, shared=True), SHARED, SHARED),
    "match": (seen(2048, 1990), MATCHES, UNDECIDED),
    "match, lower end": (seen(1000, 900), MATCHES, UNDECIDED),
    "match, upper end": (seen(1000, 1100), MATCHES, UNDECIDED),
    "match, four zeros": (seen(1000, 1000, zeros=4), MATCHES, UNDECIDED),
    "match, five zeros": (seen(1000, 1000, zeros=5), MATCHES, CONSTANT_ZERO),
    "far below": (seen(1000, 899), UNDECIDED, UNDECIDED),
    "far below with zeros": (seen(1000, 100, zeros=7), UNDECIDED, UNDECIDED),
    "no limit": (seen(None, 515_000), NO_LIMIT, NO_LIMIT),
    "no limit with zeros": (seen(None, 515_000, zeros=5), NO_LIMIT, NO_LIMIT),
    "a limit of zero": (seen(0.0, 515_000), NO_LIMIT, NO_LIMIT),
    "no total": (seen(512, None), UNDECIDED, UNDECIDED),
}


@pytest.mark.parametrize(("observation", "memory", "cpu"), TABLE.values(), ids=TABLE.keys())
def test_row_of_the_table(observation: Observation, memory: ScopeDecision, cpu: ScopeDecision) -> None:
    assert decide_scopes(observation, None) == Scopes(memory=memory, cpu=cpu)
    assert decide_scopes(observation, NO_LIMIT) == Scopes(memory=memory, cpu=cpu)


OBSERVATIONS = st.builds(
    Observation,
    source=st.just(ResourceSource.OPENSANDBOX_EXECD),
    memory_limit_mib=st.none() | st.floats(0, 1e6),
    memory_total_mib=st.none() | st.floats(0, 1e6),
    cpu_zeros=st.integers(0, 8),
    shared_total=st.booleans(),
)


@given(st.lists(OBSERVATIONS, min_size=1))
def test_node_and_sandbox_stay_once_decided(observations: list[Observation]) -> None:
    before: ScopeDecision | None = None
    for observation in observations:
        scopes = decide_scopes(observation, before)
        if before is not None and before.scope is not UNKNOWN:
            assert scopes.memory == before
        assert (scopes.cpu.scope is NODE) == (scopes.memory.scope is NODE)
        assert scopes.cpu.scope is not SANDBOX
        before = scopes.memory


def test_a_new_allocation_decides_afresh() -> None:
    node = decide_scopes(seen(512, 2048), None).memory
    assert decide_scopes(seen(2048, 2048), node).memory.scope is NODE
    assert decide_scopes(seen(2048, 2048), None).memory.scope is SANDBOX


def test_gvisor_cpu_is_blind_only_while_it_stays_at_zero() -> None:
    memory = decide_scopes(seen(512, 512), None).memory
    evidence = [decide_scopes(seen(512, 512, zeros=zeros), memory).cpu.evidence for zeros in (4, 5, 6, 0)]
    assert evidence == [EVIDENCE.UNDECIDED, EVIDENCE.CONSTANT_ZERO, EVIDENCE.CONSTANT_ZERO, EVIDENCE.UNDECIDED]


def component(name: str, limit: float | None) -> ComponentAllocation:
    return ComponentAllocation(name=name, limits=SandboxResourceAmounts(memory_mib=limit))


@pytest.mark.parametrize(
    ("components", "limit"),
    [
        ([], None),
        ([component("worker", 64.0)], 64.0),
        ([component("worker", None)], None),
        ([component("egress", 64.0), component("sandbox", 512.0)], 512.0),
        ([component("egress", 64.0), component("sandbox", None)], None),
        ([component("egress", 64.0), component("worker", 512.0)], None),
        ([component("sandbox", 64.0), component("sandbox", 512.0)], None),
    ],
)
def test_the_memory_limit_is_that_of_the_sandbox_component(
    components: list[ComponentAllocation], limit: float | None
) -> None:
    assert memory_limit_mib(components) == limit


def totals(*shown: tuple[str, str | None, float | None, float | None]) -> HostTotals:
    hosts = HostTotals()
    for sandbox, host, limit, total in shown:
        hosts.observe(sandbox, host, limit_mib=limit, total_mib=total)
    return hosts


def test_different_limits_under_one_total_are_shared() -> None:
    hosts = totals(("a", "node-1", 512, 24_105.5), ("b", "node-1", 1024, 24_105.5))
    assert hosts.shared("a")
    assert hosts.shared("b")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("b", "node-1", 512, 24_105.5), id="equal limit"),
        pytest.param(("b", "node-1", 512.4, 24_105.5), id="limit as good as equal"),
        pytest.param(("b", "node-1", 1024, 24_130.0), id="another total"),
        pytest.param(("b", "node-2", 1024, 24_105.5), id="another host"),
        pytest.param(("b", None, 1024, 24_105.5), id="no host"),
        pytest.param(("b", "node-1", None, 24_105.5), id="no limit"),
        pytest.param(("b", "node-1", 1024, None), id="no total"),
        pytest.param(("a", "node-1", 1024, 24_105.5), id="itself"),
    ],
)
def test_not_shared(other: tuple[str, str | None, float | None, float | None]) -> None:
    hosts = totals(("a", "node-1", 512, 24_105.5), other)
    assert not hosts.shared("a")
    assert not hosts.shared("b")
    assert not hosts.shared("never observed")


def test_totals_within_a_thousandth_are_one() -> None:
    assert totals(("a", "n", 512, 24_105.5), ("b", "n", 1024, 24_105.5 * 1.0009)).shared("a")
    assert not totals(("a", "n", 512, 24_105.5), ("b", "n", 1024, 24_105.5 * 1.0011)).shared("a")


def test_an_unlimited_sandbox_is_not_drawn_in_by_its_neighbours() -> None:
    assert not totals(("a", "n", 512, 24_105.5), ("b", "n", 1024, 24_105.5), ("c", "n", None, 24_105.5)).shared("c")


def test_only_live_sandboxes_count_and_where_they_are_now() -> None:
    hosts = totals(("a", "node-1", 512, 24_105.5), ("b", "node-1", 1024, 24_105.5))
    hosts.observe("b", "node-2", limit_mib=1024, total_mib=24_105.5)
    assert not hosts.shared("a")
    hosts.observe("b", "node-1", limit_mib=512, total_mib=24_105.5)
    assert not hosts.shared("a")
    hosts.observe("b", "node-1", limit_mib=1024, total_mib=24_105.5)
    assert hosts.shared("a")
    hosts.forget("b")
    assert not hosts.shared("a")
    hosts.forget("b")
    hosts.forget("a")
    assert hosts._hosts == {}
    assert hosts._host_of == {}


def test_the_machines_numbers_under_each_sandboxs_name() -> None:
    lines = (Path(__file__).parents[2] / "fixtures/execd/node-scope.jsonl").read_text().splitlines()
    hosts = HostTotals()
    decided = []
    for line in map(json.loads, lines):
        usage = parse_metrics(json.dumps(line["answer"]).encode())
        assert isinstance(usage, Usage)
        hosts.observe(line["sandbox"], line["node"], limit_mib=line["limit_mib"], total_mib=usage.memory_total_mib)
        observation = seen(line["limit_mib"], usage.memory_total_mib)
        scopes = decide_scopes(replace(observation, shared_total=hosts.shared(line["sandbox"])), None)
        decided.append((scopes.memory.scope, scopes.cpu.scope))
    assert decided == [(NODE, NODE), (NODE, NODE), (NODE, NODE), (SANDBOX, UNKNOWN), (UNKNOWN, UNKNOWN)]
