"""The poller as a whole: its parts wired together, started in order and stopped within five seconds."""

import asyncio
import logging
import resource
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from sandgauge_poller.config import Config, Ingest
from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from sandgauge_poller.export.recorder import Recorder
from sandgauge_poller.export.recording import PointSettings
from sandgauge_poller.ingest.server import IngestServer, IngestSettings
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.context import ReadingContext, ReadingSettings
from sandgauge_poller.reading.loop import ReadingLoop
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.provider import Provider
from sandgauge_poller.reading.schedule import Pacer
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.status.server import StatusServer
from sandgauge_poller.tracking.active_set import ActiveSet, Change
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_poller.tracking.tracker import Tracker

logger = logging.getLogger(__name__)

_MAINTENANCE_S = 600.0
_MEMORY_NS = 24 * 3600 * 10**9
_MEMORY_ROWS = 1_000_000
"""Repeats and ends are remembered for a day, or so many spans."""

_FLUSH_S = 3.0
_CLOSE_S = 1.0


class Poller:
    """One poller: `run` it until told to stop; raises StateError or OSError where it cannot start."""

    def __init__(self, config: Config, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock
        self._ready = {"store": False, "ingest": False}

    async def run(self, stop: asyncio.Event) -> None:
        """Take spans in, read and export until `stop` is set; then flush what can be flushed."""
        _raise_open_file_limit()
        async with AsyncExitStack() as stack:
            database = Database(self._config.state.directory)
            stack.callback(database.close, _CLOSE_S)
            self._ready["store"] = True
            metrics = self._self_metrics(stack)
            delivery = self._delivery(database, metrics)
            stack.push_async_callback(asyncio.to_thread, delivery.stop, _FLUSH_S)
            providers = await stack.enter_async_context(self._providers())
            active = ActiveSet(self._routing(), self._config.tracking.max_sandboxes)
            tracker = Tracker(database, active, lambda change: reading.on_change(change))
            context = self._reading_context(providers, tracker, self._recorder(database, metrics, delivery), metrics)
            reading = ReadingLoop(context, active)
            stack.push_async_callback(reading.stop)
            delivery.start()
            restored = await tracker.restore()
            background = [asyncio.create_task(reading.run()), asyncio.create_task(self._maintain(tracker, reading))]
            stack.push_async_callback(_cancel, background)
            await self._listen(stack, tracker, metrics)
            logger.info("ready: %d deployments, %d sandboxes restored", len(providers), restored)
            if not providers:
                logger.warning("no deployment is configured: spans are taken in, and no sandbox is read")
            await _until(stop, background)
            logger.info("stopping")

    async def _listen(self, stack: AsyncExitStack, tracker: Tracker, metrics: SelfMetrics) -> None:
        status = StatusServer(self._config.status.endpoint, lambda: dict(self._ready))
        stack.push_async_callback(status.stop)
        logger.info("status on http://%s:%d", *await status.start())
        ingest = IngestServer(_ingest_settings(self._config.ingest), tracker.commit, metrics, self._clock.now_ns)
        stack.push_async_callback(ingest.stop)
        logger.info("spans on http://%s:%d/v1/traces", *await ingest.start())
        self._ready["ingest"] = True
