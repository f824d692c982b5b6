"""Kilobytes that unpack to a gibibyte cost no more than the limit, in either framing."""

import zlib
from pathlib import Path

import pytest

from sandgauge_schemas import names
from support.otlp_json import from_resource, span, traces

LIMIT = 20 * 2**20
GIBIBYTE = 2**30
START = span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "s-1"})


@pytest.fixture(scope="module")
def bomb() -> bytes:
    packer, zeros = zlib.compressobj(wbits=31), bytes(2**20)
    return b"".join([*(packer.compress(zeros) for _ in range(GIBIBYTE // len(zeros))), packer.flush()])


class ResidentPeak:
    """How far resident memory rose above its start, in bytes."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forgets earlier peaks
        self._start = self._read("VmRSS")

    def rise(self) -> int:
        return self._read("VmHWM") - self._start

    @staticmethod
    def _read(key: str) -> int:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(lines[key].split()[0]) * 1024


@pytest.mark.parametrize("chunked", [False, True], ids=["Content-Length", "chunked"])
@pytest.mark.parametrize("content_type", ["application/json", "application/x-protobuf"])
async def test_a_gibibyte_of_zeros_is_refused_at_the_limit(start_ingest, silent_log, bomb, chunked, content_type):
    ingest = await start_ingest(max_body_size=LIMIT)

    async def pieces():
        for at in range(0, len(bomb), 4096):
            yield bomb[at : at + 4096]

    peak = ResidentPeak()
    answer = await ingest.post(pieces() if chunked else bomb, content_type, Content_Encoding="gzip")
    assert answer.status == 413
    assert peak.rise() < 1.5 * LIMIT
    assert (await ingest.post_json(traces(from_resource({}, START)))).status == 200
    assert ingest.sandbox_ids == ["s-1"]


async def test_what_follows_the_stream_is_not_kept(start_ingest, silent_log):
    """A decompressor keeps whatever comes after its end."""
    ingest = await start_ingest(max_body_size=LIMIT)

    async def endless():
        yield zlib.compress(b"{}", wbits=31)
        for _ in range(4 * LIMIT // 2**16):
            yield bytes(2**16)

    peak = ResidentPeak()
    answer = await ingest.post(endless(), Content_Encoding="gzip")
    assert answer.status == 400
    assert peak.rise() < LIMIT
