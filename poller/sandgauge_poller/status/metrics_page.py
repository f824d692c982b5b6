"""The poller's own metrics as a page that Prometheus scrapes.

Names end as Prometheus wants them (`_total`, `_seconds`, `_bytes`); over OTLP they are those of the contract.
"""

import asyncio
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import MetricsData
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from sandgauge_poller.self_histograms import SelfHistograms


class _Reader(PrometheusMetricReader):
    """Shows what the SDK collected, with the histograms beside it."""

    def __init__(self, histograms: SelfHistograms, registry: CollectorRegistry) -> None:
        super().__init__(scope_info_enabled=False, registry=registry)
        self._histograms = histograms

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        super()._receive_metrics(self._histograms.added_to(metrics_data), timeout_millis, **kwargs)


class MetricsPage:
    """A view of the meter provider that `reader` is given to; the process-wide registry is left alone.

    `histograms` are shown beside what the SDK counts.
    """

    def __init__(self, histograms: SelfHistograms) -> None:
        self._registry = CollectorRegistry()
        self.reader = _Reader(histograms, self._registry)
        self._one_at_a_time = asyncio.Lock()

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type, in the newest format that the `Accept` header takes.

        Collected in a thread, since the outbox is asked too; one at a time, since the reader hands a collection to
        whoever comes first.
        """
        encode, content_type = choose_encoder(accept)
        async with self._one_at_a_time:
            return await asyncio.to_thread(encode, self._registry), content_type
