"""The poller as a whole: its parts wired together, started in order and stopped within five seconds."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack

from sandgauge_poller import configured
from sandgauge_poller.config import Config
from sandgauge_poller.export.collector_client import connect
from sandgauge_poller.export.delivery import Delivery
from sandgauge_poller.export.handover import HandedOver, Sink
from sandgauge_poller.export.messages import TELEMETRY_SCOPE
from sandgauge_poller.export.recorder import KnownKills, Recorder
from sandgauge_poller.ingest.intake import CommitEvents, Intake
from sandgauge_poller.ingest.quarantine import Quarantine
from sandgauge_poller.ingest.server import IngestServer
from sandgauge_poller.logs import say_repeats
from sandgauge_poller.process import calm_garbage_collector, look_for_garbage, raise_open_file_limit
from sandgauge_poller.reading.build import open_providers
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.context import ReadingContext, RecordSink
from sandgauge_poller.reading.loop import ReadingLoop
from sandgauge_poller.reading.provider import Provider
from sandgauge_poller.reading.schedule import Pacer
from sandgauge_poller.reading.usage.build import open_sources
from sandgauge_poller.reading.usage.loop import PlacedSource, UsageLoop
from sandgauge_poller.self_histograms import SelfHistograms
from sandgauge_poller.self_metrics import SelfMetrics, make_meter_provider
from sandgauge_poller.shared_fleet import Parts, SharedFleet, SharedLog, open_shared_log
from sandgauge_poller.status.api import Api
from sandgauge_poller.status.fleet import Fleet
from sandgauge_poller.status.metrics_page import MetricsPage
from sandgauge_poller.status.observation import Observation
from sandgauge_poller.status.overview import Overview
from sandgauge_poller.status.readiness import Readiness
from sandgauge_poller.status.server import StatusServer
from sandgauge_poller.status.watch import WatchedRecorder
from sandgauge_poller.tracking.active_set import ActiveSet, Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_poller.tracking.tracker import Tracker
from sandgauge_schemas.names import LeftOutReason
from sandgauge_schemas.version import __version__
from sandgauge_schemas.wording import number_of

logger = logging.getLogger(__name__)

_MAINTENANCE_S = 600.0
_SAY_REPEATS_S = 5.0
_MEMORY_NS = 24 * 3600 * 10**9
_MEMORY_ROWS = 1_000_000
"""Repeats and ends are remembered for a day, or so many spans."""

# With the servers' own patience (which aiohttp may take twice) these stay under five seconds together.
_FLUSH_S = 2.0
_LAST_METRICS_S = 0.5
_CLOSE_S = 1.0

Finish = Callable[[Tracked], Awaitable[None]]


class Poller:
    """One poller: `run` it until told to stop; raises StateError or OSError where it cannot start."""

    def __init__(self, config: Config, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock
        self._readiness = Readiness(monotonic=clock.monotonic)

    async def run(self, stop: asyncio.Event) -> None:
        """Take spans in, read and export until `stop` is set; then flush what can be flushed."""
        raise_open_file_limit()
        calm_garbage_collector()
        async with AsyncExitStack() as stack:
            database = Database(self._config.state.directory)
            stack.callback(_close, database)
            self._readiness.store_trouble = lambda: database.trouble
            metrics, page = self._self_metrics(stack)
            delivery = self._delivery(database, metrics)
            delivery.start()
            stack.push_async_callback(_flush, delivery)
            providers = await stack.enter_async_context(open_providers(self._config, self._clock))
            active = ActiveSet(
                configured.routing(self._config),
                self._config.tracking.max_sandboxes,
                lambda deployment, start: context.newcomers[deployment or ""].vouches_for(start),
            )
            shared = await self._shared_log(stack)
            # The loop needs the tracker to let go of sandboxes, and the tracker the loop to hear of changes.
            owns = configured.ownership(self._config.ingest.shard) if shared is None else shared.share.owns
            tracker = Tracker(database, active, lambda change: reading.on_change(change), owns)  # noqa: PLW0108  # not made yet
            recorder = self._recorder(database, metrics, delivery, lambda sandbox: usage.kills(sandbox))  # noqa: PLW0108  # the same
            watched = WatchedRecorder(recorder)
            handed_over = None if shared is None else HandedOver(watched, active, shared.log.hand_over, self._clock)
            sink: Sink = watched if handed_over is None else handed_over
            context = self._reading_context(providers, self._finish(tracker, handed_over), sink, metrics)
            observation = Observation(active, context, database, self._clock.now_ns)
            metrics.observe(observation)
            reading = ReadingLoop(context, active)
            stack.push_async_callback(reading.stop)
            sources = await stack.enter_async_context(open_sources(self._config.usage_sources, self._clock))
            usage = UsageLoop(sources, active, reading, sink=sink, metrics=metrics, clock=self._clock)
            restored = await tracker.restore() if shared is None else 0
            parts = [reading.run(), self._maintain(tracker, context), self._say_repeats(), _fail_with(database.damage)]
            parts.append(look_for_garbage(self._clock.sleep))
            if sources:
                parts.append(usage.run())
            intake = self._intake(tracker.commit if shared is None else shared.log.publish, metrics)
            if shared is not None and handed_over is not None:
                member = SharedFleet(
                    shared,
                    Parts(
                        database=database,
                        active=active,
                        tracker=tracker,
                        reading=reading,
                        recorder=recorder,
                        handed_over=handed_over,
                        metrics=metrics,
                        clock=self._clock,
                    ),
                )
                parts += await stack.enter_async_context(member.joined(intake, self._config.state.directory))
            background = [asyncio.create_task(part) for part in parts]
            stack.push_async_callback(_cancel, background)
            self._readiness.providers = providers
            api = self._api(active, context, sources, observation, watched)
            status = StatusServer(self._config.status, self._readiness, page, api)
            logger.info("status on http://%s:%d", *await _serve(stack, "status.endpoint", status))
            await self._listen(stack, intake, reading)
            ready, back = number_of(len(providers), "deployment"), number_of(restored, "sandbox")
            logger.info("ready: %s, %s restored", ready, back)
            if not providers:
                logger.warning("no deployment is configured: spans are taken in, and no sandbox is read")
            await _until(stop, background)
            logger.info("stopping")

    def _api(
        self,
        active: ActiveSet,
        context: ReadingContext,
        sources: Sequence[PlacedSource],
        observation: Observation,
        watched: WatchedRecorder,
    ) -> Api:
        """Return what the page and the live table ask."""
        sweeps = {placed.source.source: placed.source.interval_s for placed in sources}
        fleet = Fleet(active, context, sweeps, self._clock.now_ns)
        return Api(fleet, Overview(fleet, observation, self._readiness, watched), observation)

    async def _listen(self, stack: AsyncExitStack, intake: Intake, reading: ReadingLoop) -> None:
        ingest = IngestServer(configured.ingest_settings(self._config.ingest), intake, reading.final_reading)
        logger.info("spans on http://%s:%d/v1/traces", *await _serve(stack, "ingest.endpoint", ingest))
        self._readiness.ingest = True

    async def _shared_log(self, stack: AsyncExitStack) -> SharedLog | None:
        """Return the log that pollers share, open until the stack ends; None where there is none."""
        kafka = self._config.ingest.kafka
        return await stack.enter_async_context(open_shared_log(kafka)) if kafka.brokers else None

    def _self_metrics(self, stack: AsyncExitStack) -> tuple[SelfMetrics, MetricsPage]:
        histograms = SelfHistograms(TELEMETRY_SCOPE)
        page = MetricsPage(histograms)
        provider = make_meter_provider(
            configured.metrics_sender(self._config.export),
            histograms,
            service_instance_id=configured.instance(self._config.ingest),
            other_readers=[page.reader],
        )
        stack.push_async_callback(asyncio.to_thread, provider.shutdown, timeout_millis=_LAST_METRICS_S * 1000)
        return SelfMetrics(provider.get_meter(TELEMETRY_SCOPE, __version__), histograms), page

    def _intake(self, commit: CommitEvents, metrics: SelfMetrics) -> Intake:
        quarantine = Quarantine(self._config.state.directory / "quarantine", self._clock.now_ns)
        return Intake(commit, metrics, quarantine, self._clock.now_ns)

    def _finish(self, tracker: Tracker, handed_over: HandedOver | None) -> Finish:
        """Return what lets go of a sandbox that is done with."""

        async def finish(sandbox: Tracked) -> None:
            now_ns = self._clock.now_ns()
            await tracker.finish(sandbox, now_ns)
            if handed_over is not None:
                handed_over.done(sandbox.key, now_ns)

        return finish

    def _delivery(self, database: Database, metrics: SelfMetrics) -> Delivery:
        export = self._config.export
        settings, post = configured.delivery_settings(export), connect(export).post
        return Delivery(database, post, settings, lambda n: metrics.points_left_out(LeftOutReason.AGE, n))

    def _recorder(
        self, database: Database, metrics: SelfMetrics, delivery: Delivery, known_kills: KnownKills
    ) -> Recorder:
        return Recorder(
            database,
            configured.point_settings(self._config),
            max_outbox_bytes=self._config.export.sending_queue.max_size,
            clock=self._clock,
            metrics=metrics,
            wake=delivery.notify,
            known_kills=known_kills,
        )

    def _reading_context(
        self, providers: Mapping[str, Provider], finish: Finish, sink: RecordSink, metrics: SelfMetrics
    ) -> ReadingContext:
        deployments = self._config.deployments
        return ReadingContext(
            settings=configured.reading_settings(self._config),
            clock=self._clock,
            providers=providers,
            sink=sink,
            metrics=metrics,
            finish=finish,
            first_reads={d.name: Pacer(d.max_requests_per_second) for d in deployments},
            without_execd=frozenset(d.name for d in deployments if not d.execd),
        )

    async def _say_repeats(self) -> None:
        """Say of faults that have ended how often they came."""
        while True:
            await self._clock.sleep(_SAY_REPEATS_S)
            say_repeats()

    async def _maintain(self, tracker: Tracker, context: ReadingContext) -> None:
        """Forget, now and then, what is past its memory."""
        while True:
            await self._clock.sleep(_MAINTENANCE_S)
            before_ns = self._clock.now_ns() - _MEMORY_NS
            try:
                await tracker.forget_unread(before_ns, context.is_read, self._clock.now_ns())
                await tracker.prune(before_ns, _MEMORY_ROWS)
            except (sqlite3.Error, StateError):
                logger.exception("the store could not be tidied up; it is tried again in %g s", _MAINTENANCE_S)


async def _serve(stack: AsyncExitStack, key: str, server: StatusServer | IngestServer) -> tuple[str, int]:
    """Have a server listen until the stack ends, and return its address.

    Raises OSError with the key that says where, and the cure.
    """
    stack.push_async_callback(server.stop)
    try:
        return await server.start()
    except OSError as error:
        raise OSError(f"{key}: {error.strerror or error}; stop what listens there, or name another address") from error


def _close(database: Database) -> None:
    if not database.close(_CLOSE_S):
        logger.warning("the store did not close in time; what was committed is safe")


async def _flush(delivery: Delivery) -> None:
    if not await asyncio.to_thread(delivery.stop, _FLUSH_S):
        logger.warning("the Collector did not take everything in time; the rest is sent after the next start")


async def _fail_with(fault: Future[None]) -> None:
    """Wait for a fault that the poller cannot live on with, and raise it."""
    await asyncio.wrap_future(fault)


async def _until(stop: asyncio.Event, background: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the stop; a background task that ends by itself ends the poller with its error."""
    waiting = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([waiting, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        waiting.cancel()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
