"""What a list of pod metrics says: golden files, and a list of 5,000 pods."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.kubernetes.durations import parse_duration
from sandgauge_poller.reading.kubernetes.lists import Page
from sandgauge_poller.reading.kubernetes.pod_metrics import PodUsage, parse_pod_metrics
from sandgauge_schemas.names import ErrorType
from support.pod_lists import pod_metrics, pod_metrics_list

FOLDER = Path(__file__).parents[2] / "fixtures" / "pod-metrics"


@pytest.mark.parametrize("case", sorted(path.name for path in FOLDER.iterdir()))
def test_golden_list(case: str) -> None:
    expected = json.loads((FOLDER / case / "expected.json").read_text())
    wanted = frozenset(expected["pods"]) if expected else frozenset()
    assert shown(parse_pod_metrics((FOLDER / case / "input.json").read_bytes(), wanted)) == expected


def shown(page: Page[PodUsage | ErrorType] | None) -> object:
    if page is None:
        return None
    pods = {name: usage.value if isinstance(usage, ErrorType) else numbers(usage) for name, usage in page.pods.items()}
    return {"following": page.following, "pods": pods}


def numbers(usage: PodUsage) -> object:
    told = {key: value for key, value in asdict(usage.observation).items() if value is not None}
    return told | {"containers": sorted(usage.containers)}


def test_what_is_not_wanted_is_not_kept() -> None:
    body = json.dumps(pod_metrics_list(pod_metrics("mine"), pod_metrics("another"))).encode()
    page = parse_pod_metrics(body, frozenset({"mine", "gone"}))
    assert page is not None
    assert set(page.pods) == {"mine"}


@pytest.mark.parametrize(
    "body", [b"", b"404 page not found\n", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"1" * 5000]
)
def test_what_is_no_list_is_none(body: bytes) -> None:
    assert parse_pod_metrics(body, frozenset()) is None


@pytest.mark.parametrize(
    "odd", [{"timestamp": "0001-01-01T00:00:00Z"}, {"timestamp": "yesterday"}, {"window": "0s"}, {"window": "-3s"}]
)
def test_numbers_of_no_time_are_none(odd: dict[str, str]) -> None:
    body = json.dumps(pod_metrics_list({**pod_metrics("mine"), **odd})).encode()
    page = parse_pod_metrics(body, frozenset({"mine"}))
    assert page is not None
    assert page.pods == {"mine": ErrorType.INVALID_VALUE}


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_nothing_in_the_place_of_a_pod_raises(value: object) -> None:
    pods = [pod_metrics(f"p{at}") for at in range(4)]
    pods[0]["containers"] = value
    pods[1]["containers"] = [{"name": "sandbox", "usage": value}]
    pods[2]["timestamp"] = pods[2]["window"] = value
    pods[3]["metadata"] = value
    body = json.dumps(pod_metrics_list(*pods, value)).encode()
    assert parse_pod_metrics(body, frozenset({"p0", "p1", "p2", "p3"})) is not None


@given(
    cpu=st.lists(st.integers(0, 2**60), min_size=1, max_size=5),
    memory=st.lists(st.integers(1, 2**50), min_size=5, max_size=5),
)
def test_a_pod_is_the_exact_sum_of_its_containers(cpu: list[int], memory: list[int]) -> None:
    containers = {f"c{at}": (f"{nano}n", str(memory[at])) for at, nano in enumerate(cpu)}
    body = json.dumps(pod_metrics_list(pod_metrics("p", **containers))).encode()
    page = parse_pod_metrics(body, frozenset({"p"}))
    assert page is not None
    usage = page.pods["p"]
    assert isinstance(usage, PodUsage)
    assert usage.observation.cpu_used_cores == sum(cpu) / 10**9
    assert usage.observation.memory_working_set_mib == sum(memory[: len(cpu)]) / 2**20


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("15.003s", 15.003), ("1m0.5s", 60.5), ("14.998s", 14.998), ("0", None), ("0s", 0.0), ("1h2m3s", 3723.0)],
        *[("100ms", 0.1), ("1.5h", None), ("20us", 2e-5), ("20µs", 2e-5), ("20\u03bcs", 2e-5), ("7ns", 7e-9)],
        *[("1h0m0s", 3600.0), ("1m", 60.0), ("999999999.9s", 999999999.9)],
        *[("", None), ("15", None), ("s", None), (".s", None), ("15 s", None), ("-1s", None), ("1d", None)],
        *[
            ("1e3s", None),
            ("1.2.3s", None),
            (".5s", None),
            ("1.s", None),
            ("1s1m", None),
            ("\u0661s", None),
            ("1s" * 33, None),
            ("NaNs", None),
        ],
    ],
)
def test_durations_of_go(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds
