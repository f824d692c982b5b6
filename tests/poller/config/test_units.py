"""Durations and sizes."""

import contextlib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.config import ConfigErrors, format_duration, load_config
from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_poller.config.units import parse_duration, parse_size


def load_interval(tmp_path: Path, scalar: str) -> float:
    path = tmp_path / "sandgauge.yaml"
    path.write_text(f"sampling:\n  min_interval: 1ms\n  collection_interval: {scalar}\n")
    return load_config(path, {}).sampling.collection_interval


@pytest.mark.parametrize(
    ("scalar", "seconds"),
    [
        ("10s", 10),
        ("500ms", 0.5),
        ("5m", 300),
        ("1m30s", 90),
        ("1.5s", 1.5),
        ("0", 0),
        ("0s", 0),
        ("'10s'", 10),
        ("1h30m", 5400),
        ("1s500ms", 1.5),
        ("8760h", 31_536_000),
    ],
)
def test_accepted_durations(tmp_path: Path, scalar: str, seconds: float) -> None:
    assert load_interval(tmp_path, scalar) == seconds


@pytest.mark.parametrize(
    "scalar",
    [
        "10",
        "'10'",
        "1:30",
        "-5s",
        "10 s",
        "10sec",
        "1d12h",
        ".s",
        "''",
        "null",
        "1e3s",
        "inf",
        "99999999h",
        "~",
        "",
        "5s1m",
        "1s1s",
        ".5s",
        "1.s",
        "+5s",
        "nan",
        "10S",
        "٣s",
        "[10s]",
    ],
)
def test_refused_durations(tmp_path: Path, scalar: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load_interval(tmp_path, scalar)
    (error,) = caught.value.errors
    assert str(caught.value).startswith(f"{tmp_path / 'sandgauge.yaml'}:3: sampling.collection_interval: ")
    assert "10s" in error.cure


@given(st.integers(0, 31_536_000_000))
def test_durations_round_trip(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.lists(st.decimals(0, 1000, places=3), min_size=4, max_size=4))
def test_durations_are_the_sum_of_their_parts(parts: list[Decimal]) -> None:
    hours, minutes, seconds, milliseconds = parts
    text = f"{hours}h{minutes}m{seconds}s{int(milliseconds)}ms"
    assert parse_duration(text) == float(hours * 3600 + minutes * 60 + seconds + Decimal(int(milliseconds)) / 1000)


@given(st.text())
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidValueError):
        assert 0 <= parse_duration(text) <= 31_536_000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20MiB", 20 * 2**20),
        ("256MiB", 2**28),
        ("1.5KiB", 1536),
        ("1B", 1),
        ("500kB", 500_000),
        ("2GB", 2 * 10**9),
        ("1TiB", 2**40),
    ],
)
def test_accepted_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["20", "", "0MiB", "20M", "20Mi", "20mib", "1.5B", "-1MiB", "1 MiB", "1e3MiB", "9999999TiB", "MiB", "1KB"]
)
def test_refused_sizes(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_size(text)


@given(st.integers(1, 2**50))
def test_bytes_round_trip(size: int) -> None:
    assert parse_size(f"{size}B") == size
