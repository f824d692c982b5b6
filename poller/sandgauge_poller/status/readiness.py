"""What `/readyz` says: the gates of this process, and how each control plane answered last, which is no gate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandgauge_poller.reading.provider import Provider


@dataclass(slots=True, kw_only=True)
class Readiness:
    """Set by the service as its parts come up; `monotonic` gives seconds.

    `store_trouble` says why the store keeps nothing at present, None while it does.
    """

    monotonic: Callable[[], float]
    store_trouble: Callable[[], str | None] = lambda: "not open yet"
    ingest: bool = False
    providers: Mapping[str, Provider] = field(default_factory=dict)

    def report(self) -> dict[str, Any]:
        """Return the answer's fields: a control plane is `ok`, an error type or `not_asked`; ages are in seconds.

        `ready` says whether spans are taken in and kept. A control plane that is away makes no span unwelcome.
        """
        control_planes = {name: self._control_plane(provider) for name, provider in self.providers.items()}
        trouble = self.store_trouble()
        return {
            "ready": trouble is None and self.ingest,
            "store": trouble is None,
            **({"store_trouble": trouble} if trouble is not None else {}),
            "ingest": self.ingest,
            "control_planes": control_planes,
        }

    def _control_plane(self, provider: Provider) -> dict[str, Any]:
        last = provider.last_answer()
        if last is None:
            return {"last_answer": "not_asked"}
        outcome = last.error_type.value if last.error_type is not None else "ok"
        return {"last_answer": outcome, "seconds_ago": round(self.monotonic() - last.at_s, 1)}
