"""Send fuzzed bodies to an ingest port and take down what is wrong with its answers."""

import asyncio
import io
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from support.fuzzed_bodies import Fuzzed
from support.running_poller import RunningPoller

_SENDERS = 8
_ANSWER_WITHIN_S = 60.0


@dataclass
class Findings:
    """How often each status came, the slowest answer in s by kind of body, and the answers that are not right.

    `held_s` is the longest that anything else had to wait for the poller meanwhile: a health check.
    """

    held_s: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    slowest_s: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def peak_memory(pid: int) -> int:
    """Return the most memory that a process has had resident, in bytes."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


async def send_all(poller: RunningPoller, bodies: Iterable[Fuzzed], senders: int = _SENDERS) -> Findings:
    """Send the bodies, some at once, as a Collector does: what is answered 503 is sent again."""
    findings, waiting = Findings(), iter(bodies)
    timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as http:

        async def sender() -> None:
            for fuzzed in waiting:
                start = time.monotonic()
                status = await _send(http, poller.endpoint, fuzzed)
                took_s = time.monotonic() - start
                findings.statuses[status] += 1
                findings.slowest_s[fuzzed.kind] = max(took_s, findings.slowest_s.get(fuzzed.kind, 0.0))
                if status not in fuzzed.right and len(findings.wrong) < 20:
                    findings.wrong.append(f"{fuzzed.kind} {fuzzed.content_type}: {status} {fuzzed.body[:300]!r}")

        watching = asyncio.create_task(_watch(http, poller, findings))
        await asyncio.gather(*(sender() for _ in range(senders)))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return findings


async def _watch(http: aiohttp.ClientSession, poller: RunningPoller, findings: Findings) -> None:
    while True:
        start = time.monotonic()
        async with http.get(f"{poller.status_url}/healthz") as answer:
            assert answer.status == 200
        findings.held_s = max(findings.held_s, time.monotonic() - start)
        await asyncio.sleep(0.05)


async def _send(http: aiohttp.ClientSession, endpoint: str, fuzzed: Fuzzed) -> int:
    headers = {"Content-Type": fuzzed.content_type, **({"Content-Encoding": "gzip"} if fuzzed.packed else {})}
    while True:
        async with http.post(f"{endpoint}/v1/traces", data=io.BytesIO(fuzzed.body), headers=headers) as answer:
            if answer.status != 503:
                return answer.status
            assert answer.headers["Retry-After"] == "1"
        await asyncio.sleep(0.2)
