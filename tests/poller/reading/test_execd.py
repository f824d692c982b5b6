import json
import math
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.opensandbox.execd import parse_metrics
from sandgauge_poller.reading.provider import Usage
from sandgauge_schemas.names import ErrorType

INVALID, NOTHING, NO_JSON = ErrorType.INVALID_VALUE, ErrorType.NO_READING, ErrorType.UNRECOGNIZED_FORMAT
NOW = 1_795_000_001_000


def read(
    *, timestamp: int | None = NOW, cpus: float | None = 2.0, pct: float | None = 12.5, used: float | None = 100.0
) -> Usage:
    return Usage(
        timestamp_ms=timestamp,
        cpu_count=cpus,
        cpu_used_percentage=pct,
        memory_total_mib=2048.0,
        memory_used_mib=used,
    )


def body(**fields: object) -> str:
    """An execd answer with some fields replaced; a text is put in as it stands."""
    answer = {
        "cpu_count": 2,
        "cpu_used_pct": 12.5,
        "mem_total_mib": 2048,
        "mem_used_mib": 100,
        "timestamp": NOW,
        **fields,
    }
    parts = (f'"{key}":{value if isinstance(value, str) else json.dumps(value)}' for key, value in answer.items())
    return "{" + ",".join(parts) + "}"


REST = '"mem_total_mib":2048,"mem_used_mib":100,"timestamp":1795000001000}'
DECISIONS = [
    # as a genuine daemon writes it
    (body(), read()),
    (body(cpu_used_pct=100, mem_used_mib=622.30078125), read(pct=100.0, used=622.30078125)),
    (body(cpu_used_pct=0), read(pct=0.0)),
    (body(extra={"nested": [1, "two"]}), read()),
    # missing and null are not told; the rest is
    ('{"cpu_count":2,' + REST, read(pct=None)),
    (body(cpu_used_pct=None), read(pct=None)),
    (body(mem_used_mib=None, cpu_count=None), read(used=None, cpus=None)),
    ('{"cpu_count":2}', Usage(cpu_count=2.0)),
    # what cannot be true fails the reading
    (body(cpu_used_pct="NaN"), INVALID),
    (body(cpu_used_pct="Infinity"), INVALID),
    (body(cpu_used_pct="-Infinity"), INVALID),
    (body(cpu_used_pct="1e400"), INVALID),
    (body(mem_total_mib="1e400"), INVALID),
    (body(cpu_used_pct=1857.74), INVALID),
    (body(cpu_used_pct=-3), INVALID),
    (body(cpu_used_pct='"12.5"'), INVALID),
    (body(mem_total_mib='"2048"'), INVALID),
    (body(mem_used_mib=True), INVALID),
    (body(cpu_count=False), INVALID),
    (body(cpu_count=[2]), INVALID),
    (body(cpu_count={}), INVALID),
    (body(cpu_count=0), INVALID),
    (body(cpu_count=65537), INVALID),
    (body(mem_used_mib=4096), INVALID),
    (body(mem_used_mib=2048.0000001), INVALID),
    (body(mem_total_mib=-1), INVALID),
    (body(mem_total_mib=0), INVALID),
    (body(mem_total_mib=2**44 + 1), INVALID),
    (body(mem_total_mib="1" + "0" * 400), INVALID),
    # bounds that are still true
    (body(mem_used_mib=2048), read(used=2048.0)),
    (body(cpu_used_pct=100.00000000000001), read(pct=100.0)),
    (body(cpu_used_pct=100.001), read(pct=100.0)),
    (body(cpu_used_pct=100.0011), INVALID),
    (body(cpu_used_pct="-0.0"), read(pct=0.0)),
    # a time that is none is left out; one that is unlikely is the daemon's own, and kept
    (body(timestamp='"1795000001000"'), read(timestamp=None)),
    (body(timestamp=1_795_000_001), read(timestamp=1_795_000_001)),
    (body(timestamp=0), read(timestamp=None)),
    (body(timestamp=-5), read(timestamp=None)),
    (body(timestamp=True), read(timestamp=None)),
    (body(timestamp="1.795e12"), read(timestamp=None)),
    (body(timestamp=2**63), read(timestamp=None)),
    (body(timestamp="NaN"), read(timestamp=None)),
    (body(timestamp=None), read(timestamp=None)),
    # answers that hold nothing
    (body(cpu_used_pct=0, mem_total_mib=0, mem_used_mib=0), NOTHING),
    (body(cpu_count=0, cpu_used_pct=0, mem_total_mib=0, mem_used_mib=0, timestamp=0), NOTHING),
    (body(cpu_used_pct=50, mem_total_mib=0, mem_used_mib=0), NOTHING),
    ("{}", NOTHING),
    ('{"timestamp":1795000001000}', NOTHING),
    ('{"code":"RUNTIME_ERROR","message":"x"}', NOTHING),
    # answers that are no strict JSON object
    ("", NO_JSON),
    ("null", NO_JSON),
    ("[]", NO_JSON),
    ("12.5", NO_JSON),
    ("<html>", NO_JSON),
    (body()[:-1], NO_JSON),
    (body() + body(), NO_JSON),
    ("\ufeff" + body(), NO_JSON),
    ('{"cpu_used_pct":1,"cpu_used_pct":99,"cpu_count":2,' + REST, NO_JSON),
    ('{"cpu_used_pct":12.5,"cpu_used_pct":12.5,"cpu_count":2,' + REST, NO_JSON),
    ("[" * 100_000, NO_JSON),
    ('{"a":' * 100_000, NO_JSON),
    (body(cpu_count="1" * 5000), NO_JSON),
]


@pytest.mark.parametrize(("text", "expected"), DECISIONS, ids=[text[:70] or "empty" for text, _ in DECISIONS])
def test_decision(text: str, expected: Usage | ErrorType) -> None:
    result = parse_metrics(text.encode())
    assert result == expected
    if isinstance(result, Usage) and result.cpu_used_percentage is not None:
        assert math.copysign(1, result.cpu_used_percentage) == 1


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe{}", b"{\x80}", body().encode("utf-16"), body().encode("utf-32"), b"\x00" * 9]
)
def test_other_encodings_are_refused(raw: bytes) -> None:
    assert parse_metrics(raw) is NO_JSON


def test_each_line_of_bad_numbers_is_decided() -> None:
    lines = (Path(__file__).parents[2] / "fixtures/execd/bad-numbers.txt").read_text().splitlines()
    assert [parse_metrics(line.encode()) for line in lines] == [
        INVALID,  # NaN
        INVALID,  # Infinity
        INVALID,  # 1e400
        INVALID,  # 1857.74 %
        INVALID,  # -3 %
        read(cpus=1.0, pct=100.0),  # a hair above 100
        INVALID,  # text and bool for numbers
        read(cpus=1.0, pct=None),  # null
        INVALID,  # more used than there is
        read(pct=None),  # missing
        read(cpus=1.0, timestamp=None),  # time as text
        read(cpus=1.0, timestamp=1_795_000_001),  # seconds, kept: the reading's window shows it
        NO_JSON,  # one key twice
    ]


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
KEYS = st.sampled_from(["cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp"])


@given(st.binary() | st.dictionaries(KEYS, NUMBERS).map(lambda fields: json.dumps(fields).encode()))
def test_whatever_comes_only_possible_numbers_leave(raw: bytes) -> None:
    result = parse_metrics(raw)
    if isinstance(result, ErrorType):
        assert result in {INVALID, NOTHING, NO_JSON}
        return
    assert result.timestamp_ms is None or 0 < result.timestamp_ms < 2**63
    assert result.cpu_count is None or 0 < result.cpu_count <= 65536
    assert result.cpu_used_percentage is None or 0 <= result.cpu_used_percentage <= 100
    assert result.memory_total_mib is None or 0 < result.memory_total_mib <= 2**44
    assert result.memory_used_mib is None or 0 <= result.memory_used_mib <= (result.memory_total_mib or 2**44)


@pytest.mark.parametrize(
    "raw", [b"9" * 1_000_000, b'{"a":"' + b"\\u0000" * 200_000, b"[" * 1_000_000, b"{" + b'"a":1,' * 200_000]
)
def test_a_megabyte_of_anything_is_read_in_linear_time(raw: bytes) -> None:
    started = process_time()
    assert parse_metrics(raw) is NO_JSON
    assert process_time() - started < 5
