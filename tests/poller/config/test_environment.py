"""References to the environment."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.config import load_config
from sandgauge_poller.config.environment import expand, is_switched_off
from sandgauge_poller.config.errors import InvalidValueError

ENVIRON = {"KEY": "a$b$$c${OTHER}d", "EMPTY": "", "BRACES": "${env:KEY}"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${env:KEY}", "a$b$$c${OTHER}d"),
        ("<${env:KEY}>${env:EMPTY}", "<a$b$$c${OTHER}d>"),
        ("${env:BRACES}", "${env:KEY}"),
        ("${env:NONE:-}", ""),
        ("${env:NONE:-a:-b}", "a:-b"),
        ("${env:NONE:-$$5}", "$5"),
        ("${env:EMPTY:-default}", "default"),
        ("$$", "$"),
        ("$$${env:EMPTY}", "$"),
        ("$${X}", "${X}"),
        ("$$${X", None),
        ("pa$word$", "pa$word$"),
        ("${env:NONE}", None),
        ("${env:KEY", None),
        ("${KEY}", None),
        ("${env:}", None),
        ("${env:9}", None),
        ("${env:NONE:-${env:KEY}}", None),
        ("${file:/etc/passwd}", None),
    ],
)
def test_expand(text: str, expanded: str | None) -> None:
    if expanded is None:
        with pytest.raises(InvalidValueError):
            expand(text, ENVIRON)
    else:
        assert expand(text, ENVIRON) == expanded


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("${env:NONE:-}", True),
        ("${env:EMPTY:-}", True),
        ("${env:KEY:-}", False),
        ("", False),
        ("x${env:NONE:-}", False),
    ],
)
def test_switched_off(text: str, off: bool) -> None:
    assert is_switched_off(text, ENVIRON) is off


@given(st.text())
def test_what_comes_from_the_environment_is_not_expanded_again(value: str) -> None:
    assert expand("<${env:KEY}>", {"KEY": value}) == f"<{value}>"


@given(st.text())
def test_dollars_doubled_are_dollars(text: str) -> None:
    assert expand(text.replace("$", "$$"), {}) == text


def test_key_from_the_environment_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "sandgauge.yaml"
    path.write_text("deployments: [{name: a, endpoint: http://a, api_key: '${env:KEY}'}]")
    (deployment,) = load_config(path, ENVIRON).deployments
    assert deployment.api_key.get_secret_value() == ENVIRON["KEY"]


def test_references_take_the_type_that_the_key_wants(tmp_path: Path) -> None:
    path = tmp_path / "sandgauge.yaml"
    path.write_text("tracking: {max_sandboxes: '${env:N}', orphan_grace: '${env:T}'}\nexport: {traces: '${env:B}'}")
    config = load_config(path, {"N": "7", "T": "1m", "B": "false"})
    assert (config.tracking.max_sandboxes, config.tracking.orphan_grace, config.export.traces) == (7, 60.0, False)
