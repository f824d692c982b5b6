"""The poller as a whole: its parts wired together, started in order and stopped within five seconds."""

import asyncio
import gc
import logging
import resource
import socket
import sqlite3
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack

from sandgauge_poller.config import Config, Export, Ingest
from sandgauge_poller.export.answer import Verdict
from sandgauge_poller.export.collector_client import connect, send
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from sandgauge_poller.export.handover import HandedOver, Sink
from sandgauge_poller.export.messages import TELEMETRY_SCOPE
from sandgauge_poller.export.recorder import KnownKills, Recorder
from sandgauge_poller.export.sandbox_encoding import PointSettings
from sandgauge_poller.ingest.intake import CommitEvents, Intake
from sandgauge_poller.ingest.quarantine import Quarantine
from sandgauge_poller.ingest.server import IngestServer, IngestSettings
from sandgauge_poller.logs import say_repeats
from sandgauge_poller.reading.build import open_providers
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.context import ReadingContext, ReadingSettings, RecordSink
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
from sandgauge_poller.tracking.ownership import Owns, owns_all, owns_shard
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_poller.tracking.tracker import Tracker
from sandgauge_schemas.names import LeftOutReason, Signal
from sandgauge_schemas.version import __version__

logger = logging.getLogger(__name__)

_MAINTENANCE_S = 600.0
_SAY_REPEATS_S = 5.0
_MEMORY_NS = 24 * 3600 * 10**9
_MEMORY_ROWS = 1_000_000
"""Repeats and ends are remembered for a day, or so many spans."""

_GARBAGE_THRESHOLDS = (100_000, 50, 1_000)
"""New objects until they are looked at, and how many such looks until one at the middle-aged, and at all."""

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
        _raise_open_file_limit()
        _calm_garbage_collector()
        async with AsyncExitStack() as stack:
            database = Database(self._config.state.directory)
            stack.callback(_close, database)
            self._readiness.store_trouble = lambda: database.trouble
            metrics, page = self._self_metrics(stack)
            delivery = self._delivery(database, metrics)
            delivery.start()
            stack.push_async_callback(_flush, delivery)
            providers = await stack.enter_async_context(open_providers(self._config, self._clock))
            active = ActiveSet(self._routing(), self._config.tracking.max_sandboxes)
            shared = await self._shared_log(stack)
            # The loop needs the tracker to let go of sandboxes, and the tracker the loop to hear of changes.
            tracker = Tracker(database, active, lambda change: reading.on_change(change), self._owns(shared))  # noqa: PLW0108  # not made yet
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
            logger.info("ready: %d deployments, %d sandboxes restored", len(providers), restored)
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
        ingest = IngestServer(_ingest_settings(self._config.ingest), intake, reading.final_reading)
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
            _sender(self._config.export),
            histograms,
            service_instance_id=self._instance(),
            other_readers=[page.reader],
        )
        stack.push_async_callback(asyncio.to_thread, provider.shutdown, timeout_millis=_LAST_METRICS_S * 1000)
        return SelfMetrics(provider.get_meter(TELEMETRY_SCOPE, __version__), histograms), page

    def _intake(self, commit: CommitEvents, metrics: SelfMetrics) -> Intake:
        quarantine = Quarantine(self._config.state.directory / "quarantine", self._clock.now_ns)
        return Intake(commit, metrics, quarantine, self._clock.now_ns)

    def _instance(self) -> str | None:
        """Return what tells this poller from the others, where there are others."""
        if self._config.ingest.kafka.brokers:
            return socket.gethostname()
        shard = self._config.ingest.shard
        return None if shard is None else f"shard-{shard.index}"

    def _finish(self, tracker: Tracker, handed_over: HandedOver | None) -> Finish:
        """Return what lets go of a sandbox that is done with."""

        async def finish(sandbox: Tracked) -> None:
            now_ns = self._clock.now_ns()
            await tracker.finish(sandbox, now_ns)
            if handed_over is not None:
                handed_over.done(sandbox.key, now_ns)

        return finish

    def _owns(self, shared: SharedLog | None) -> Owns:
        if shared is not None:
            return shared.share.owns
        shard = self._config.ingest.shard
        if shard is None:
            return owns_all
        if shard.index >= shard.count:
            logger.warning("shard %s stands by: it keeps the feed and reads nothing; the first shard is 0", shard)
        else:
            logger.info("shard %s: sandboxes of others are kept and not read", shard)
        return owns_shard(shard.index, shard.count)

    def _delivery(self, database: Database, metrics: SelfMetrics) -> Delivery:
        export = self._config.export
        settings = DeliverySettings(
            timeout_s=export.timeout,
            initial_interval_s=export.retry_on_failure.initial_interval,
            max_interval_s=export.retry_on_failure.max_interval,
            metrics_max_age_s=export.metrics_max_age,
        )
        post = connect(export).post
        return Delivery(database, post, settings, lambda n: metrics.points_left_out(LeftOutReason.AGE, n))

    def _recorder(
        self, database: Database, metrics: SelfMetrics, delivery: Delivery, known_kills: KnownKills
    ) -> Recorder:
        export = self._config.export
        settings = PointSettings(
            metrics=export.metrics,
            rollout_id=export.metric_ids.rollout,
            request_id=export.metric_ids.request,
            max_clock_skew_ns=round(self._config.sampling.max_clock_skew * 1e9),
        )
        return Recorder(
            database,
            settings,
            max_outbox_bytes=export.sending_queue.max_size,
            clock=self._clock,
            metrics=metrics,
            wake=delivery.notify,
            known_kills=known_kills,
        )

    def _routing(self) -> Routing:
        return Routing([DeploymentNames(d.name, d.provider, d.identities) for d in self._config.deployments])

    def _reading_context(
        self, providers: Mapping[str, Provider], finish: Finish, sink: RecordSink, metrics: SelfMetrics
    ) -> ReadingContext:
        sampling = self._config.sampling
        settings = ReadingSettings(
            # Without traces there is nobody to read for: gauges alone never start a sampler.
            collection_interval=sampling.collection_interval if self._config.export.traces else 0.0,
            min_interval=sampling.min_interval,
            initial_delay=sampling.initial_delay,
            collection_jitter=sampling.collection_jitter,
            refresh_interval=self._config.allocation.refresh_interval,
            orphan_grace=self._config.tracking.orphan_grace,
            summary_delay=self._config.tracking.summary_delay,
        )
        return ReadingContext(
            settings=settings,
            clock=self._clock,
            providers=providers,
            sink=sink,
            metrics=metrics,
            finish=finish,
            first_reads={d.name: Pacer(d.max_requests_per_second) for d in self._config.deployments},
            without_execd=frozenset(d.name for d in self._config.deployments if not d.execd),
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


def _ingest_settings(ingest: Ingest) -> IngestSettings:
    tls = None
    if ingest.tls.cert_file is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(ingest.tls.cert_file, ingest.tls.key_file)
    return IngestSettings(
        host=ingest.endpoint.host,
        port=ingest.endpoint.port,
        max_body_size=ingest.max_request_body_size,
        bearer_token=ingest.auth.bearer_token.get_secret_value(),
        tls=tls,
    )


def _close(database: Database) -> None:
    if not database.close(_CLOSE_S):
        logger.warning("the store did not close in time; what was committed is safe")


async def _flush(delivery: Delivery) -> None:
    if not await asyncio.to_thread(delivery.stop, _FLUSH_S):
        logger.warning("the Collector did not take everything in time; the rest is sent after the next start")


def _sender(export: Export) -> Callable[[bytes], bool]:
    """Return what sends the poller's own metrics and says whether they arrived."""
    client = connect(export)

    def is_delivered(message: bytes) -> bool:
        outcome = send(client.post, Signal.METRICS, message, timeout_s=export.timeout, now_s=time.time())
        return outcome.verdict is Verdict.DELIVERED

    return is_delivered


def _raise_open_file_limit() -> None:
    """Take all open files that the system allows: each sandbox's connection is kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        logger.info("open files: limit raised from %d to %d", soft, hard)


def _calm_garbage_collector() -> None:
    """Look for garbage among what is new, and hardly ever through everything that lives.

    That stops all readings at once: for a tenth of a second with a thousand sandboxes (measured), longer with more.
    """
    gc.freeze()  # what was imported stays anyway
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


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
