"""What the kernel itself counts of a container, read beside whoever else reports it."""

import threading
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = Path("/sys/fs/cgroup")
_IS_V2 = (_ROOT / "cgroup.controllers").exists()
_APART_S = 0.01


@dataclass
class CgroupRecord:
    """Reads a container's control group all the time, in a thread, as a context manager."""

    container_id: str
    times_ns: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    working_set_mib: list[float] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._cpu, self._memory = (_folder(name, self.container_id) for name in ("cpuacct", "memory"))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def cores(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        """Return the least and the most that the container can have used between two times, as a mean."""
        (low_1, high_1), (low_2, high_2) = self._cpu_at(start_ns), self._cpu_at(end_ns)
        seconds = (end_ns - start_ns) / 1e9
        return (low_2 - high_1) / seconds, (high_2 - low_1) / seconds

    def working_set(self, at_ns: int) -> float:
        """Return its working set in MiB at about that time."""
        return self.working_set_mib[self._place(at_ns)]

    def _cpu_at(self, at_ns: int) -> tuple[float, float]:
        place = self._place(at_ns)
        return self.cpu_s[place - 1], self.cpu_s[place]

    def _place(self, at_ns: int) -> int:
        place = bisect_left(self.times_ns, at_ns)
        assert 0 < place < len(self.times_ns), "nobody read the control group at that time"
        return place

    def _run(self) -> None:
        while not self._ended.wait(_APART_S):
            cpu_s, working_set = self._read_cpu(), self._read_working_set()
            self.times_ns.append(time.time_ns())
            self.cpu_s.append(cpu_s)
            self.working_set_mib.append(working_set)

    def _read_cpu(self) -> float:
        if _IS_V2:
            return _lines(self._cpu / "cpu.stat")["usage_usec"] / 1e6
        return int((self._cpu / "cpuacct.usage").read_text()) / 1e9

    def _read_working_set(self) -> float:
        usage = int((self._memory / ("memory.current" if _IS_V2 else "memory.usage_in_bytes")).read_text())
        inactive = _lines(self._memory / "memory.stat")["inactive_file" if _IS_V2 else "total_inactive_file"]
        return max(0, usage - inactive) / 2**20


def _folder(controller: str, container_id: str) -> Path:
    root = _ROOT if _IS_V2 else _ROOT / controller
    (found,) = root.glob(f"**/*{container_id}*")
    return found


def _lines(file: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in file.read_text().splitlines())}
