import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.opensandbox.inspect import InspectResult, parse_inspect
from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.records import ComponentAllocation
from sandgauge_schemas.resources import SandboxResourceAmounts

CASES = sorted((Path(__file__).parents[2] / "fixtures/inspect").iterdir())
TEXTS = [(case / "input.txt").read_text() for case in CASES]


def as_json(result: InspectResult) -> dict[str, object]:
    """The result in the shape of expected.json."""

    def amounts(of: SandboxResourceAmounts) -> dict[str, object]:
        keys = ("cpu", "memory_mib", "disk_gib", "gpu", "gpu_type")
        return {key: value for key in keys if (value := getattr(of, key)) is not None}

    def component(of: ComponentAllocation) -> dict[str, object]:
        return {"name": of.name, "requests": amounts(of.requests), "limits": amounts(of.limits)}

    def placement(kind: str | None, identity: str | None) -> list[str | None] | None:
        return None if kind is None and identity is None else [kind, identity]

    return {
        "source": result.source,
        "components": [component(of) for of in result.components],
        "notes": sorted(result.notes),
        "designator": placement(result.designator_kind, result.designator_id),
        "host": placement(result.host_kind, result.host_id),
        "oom_killed": result.oom_killed,
        "paused": result.paused,
        "error": result.error,
    }


def holds(result: InspectResult) -> None:
    """What is true of every text."""
    named = any(of.requests or of.limits for of in result.components)
    assert (result.error is None) == named
    unrecognized = result.source is ResourceSource.OPENSANDBOX_INSPECT
    assert unrecognized == (result.error is ErrorType.UNRECOGNIZED_FORMAT)
    assert (result.designator_kind is None) == (result.designator_id is None)
    assert (result.host_kind is None) == (result.host_id is None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_text_says_what_stands_beside_it(case: Path) -> None:
    text = (case / "input.txt").read_text()
    expected = json.loads((case / "expected.json").read_text())
    assert as_json(parse_inspect(text)) == expected
    assert as_json(parse_inspect(text + "\n")) == expected


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    holds(parse_inspect(text))


@st.composite
def mutilated(draw: st.DrawFn) -> str:
    """A real text with a piece cut out, doubled, or overwritten."""
    text = draw(st.sampled_from(TEXTS))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 200)))
    piece = draw(st.just("") | st.just(text[start:end] * 2) | st.text(max_size=20) | st.sampled_from(TEXTS))
    return text[:start] + piece + text[end:]


@given(mutilated())
def test_any_mutilated_text_is_read(text: str) -> None:
    holds(parse_inspect(text))


LINES = st.sampled_from(
    [
        *(
            "",
            "Resources:",
            "Network:",
            "Containers:",
            "Conditions:",
            "Labels:",
            "Environment:",
            "Node:           evil",
        ),
        *("  CPU:          99.00 cores", "  Memory:       99 MiB", "  sandbox:", "  side:", "    Message:        x"),
        *("    Limits:   {'cpu': '99'}", "    State:          Terminated (exit=137, reason=OOMKilled)"),
        *("  PodResizePending: True (reason=Infeasible)", "Paused:         True", "OOMKilled:      True"),
    ]
)


@given(st.lists(LINES, max_size=12))
def test_a_kubernetes_termination_message_changes_nothing(message: list[str]) -> None:
    """Whatever the program in the sandbox writes as its last words, the rest of the pod reads the same."""
    before = (
        "Pod Name:       sandbox-q1\nNamespace:      boxes\nNode:           node-7\n\nContainers:\n  sandbox:\n"
        "    State:          Terminated (exit=1, reason=Error)\n    Message:        "
    )
    after = (
        "\n  side:\n    Ready:          True\n\nConditions:\n  Ready: False (reason=N/A)\n\nLabels:\n  a=b\n\n"
        "Resources:\n  sandbox:\n    Limits:   {'cpu': '1'}\n  side:"
    )
    assert parse_inspect(before + "\n".join(["bye", *message]) + after) == parse_inspect(before + "bye" + after)


@given(st.lists(LINES, max_size=12), st.sampled_from(["", "Error:          exec: no such file\n"]))
def test_a_docker_environment_forges_nothing(environment: list[str], error: str) -> None:
    """At worst, beside a start error, a fake `Network:` line leaves the limits unread; it never changes them."""
    text = (
        f"Container ID:   7f7df5a1dddb\nPaused:         False\nOOMKilled:      False\n{error}\nResources:\n"
        "  CPU:          1.00 cores\n\nNetwork:\n  bridge: 172.17.0.9\n\nEnvironment:\n  X=line1"
    )
    result = parse_inspect("\n".join([text, *environment]))
    honest = parse_inspect(text)
    assert honest.components[0].limits == SandboxResourceAmounts(cpu=1.0)
    if error and "Network:" in environment:
        assert not result.components[0].limits
    else:
        assert result == honest


@given(st.lists(LINES, max_size=12))
def test_a_docker_start_error_forges_nothing(message: list[str]) -> None:
    """Foreign text in `Error:` leaves the limits as they are or unread."""
    text = "\n".join(
        [
            "Container ID:   7f7df5a1dddb\nPaused:         False\nOOMKilled:      False\nError:          exec: x",
            *message,
            ": no such file\n\nResources:\n  CPU:          1.00 cores\n\nNetwork:\n  bridge: 172.17.0.9",
        ]
    )
    result = parse_inspect(text)
    assert result.components[0].limits in (SandboxResourceAmounts(cpu=1.0), SandboxResourceAmounts())
    assert (result.paused, result.oom_killed) == (False, False)


HOSTILE = {
    "quotes": "    Limits:   {" + "'a': 'b', " * 100_000,
    "open quotes": "    Limits:   {" + "'" * 1_000_000,
    "blanks": "    Limits:" + " " * 1_000_000,
    "components": "  sandbox:\n" * 100_000,
    "blank lines": "\n" * 1_000_000,
    "titles": "\nResources:\n" * 80_000,
    "digits": "  CPU:          " + "9" * 1_000_000 + ".00 cores",
    "one name": "  " + "a" * 1_000_000 + ":",
}


@pytest.mark.parametrize(
    "head", ["Container ID:   7f7df5a1dddb\n", "Container ID:   7f7df5a1dddb\nError: x\n", "Pod Name:       a\n"]
)
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_megabyte_of_anything_is_read_in_linear_time(head: str, hostile: str) -> None:
    text = f"{head}\nResources:\n{hostile}\n\nNetwork:\n\nResources:\n  sandbox:\n{hostile}"
    started = process_time()
    holds(parse_inspect(text))
    assert process_time() - started < 5


DOCKER_LIFE = "Container ID:   41477b23ddb3\nStarted At:     {}\n\nResources:\n  Memory:       128 MiB"
POD_LIFE = """\
Pod Name:       sandbox-q1
Start Time:     {}

Containers:
  egress:
    Restart Count:  7
  sandbox:
    Ready:          True
    Restart Count:  {}
    State:          Running (since 2026-11-20 08:00:00+00:00)

Resources:
  egress:
  sandbox:"""
FORGED_COUNT = """\
Pod Name:       sandbox-q1
Start Time:     2026-11-20 08:00:00+00:00

Containers:
  egress:
    State:          Terminated (exit=0, reason=Completed)
    Message:        bye
  sandbox:
    Restart Count:  9

Resources:
  egress:
  sandbox:"""
EIGHT_NS = 1_795_161_600 * 10**9


@pytest.mark.parametrize(
    ("text", "started_ns", "restarts"),
    [
        (DOCKER_LIFE.format("2026-11-20T08:00:00.553879095Z"), EIGHT_NS + 553_879_000, None),
        (DOCKER_LIFE.format("2026-11-20T09:00:00+01:00"), EIGHT_NS, None),
        (DOCKER_LIFE.format("2026-11-20T08:00:00"), None, None),
        (DOCKER_LIFE.format("yesterday"), None, None),
        (POD_LIFE.format("2026-11-20 08:00:00+00:00", 2), EIGHT_NS, 2),
        (POD_LIFE.format("None", 0), None, 0),
        (POD_LIFE.format("2026-11-20 08:00:00+00:00", "many"), EIGHT_NS, None),
        (FORGED_COUNT, EIGHT_NS, None),
    ],
)
def test_text_says_since_when_and_how_often_started_again(text: str, started_ns: int | None, restarts: int | None):
    result = parse_inspect(text)
    assert (result.started_ns, result.restarts) == (started_ns, restarts)
