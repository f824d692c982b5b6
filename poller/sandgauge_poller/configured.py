"""What the configuration means to each part of the poller."""

import logging
import socket
import ssl
import time
from collections.abc import Callable

from sandgauge_poller.config import Config, Export, Ingest, Shard
from sandgauge_poller.export.answer import Verdict
from sandgauge_poller.export.collector_client import connect, send
from sandgauge_poller.export.delivery import DeliverySettings
from sandgauge_poller.export.sandbox_encoding import PointSettings
from sandgauge_poller.ingest.server import IngestSettings
from sandgauge_poller.reading.context import ReadingSettings
from sandgauge_poller.tracking.ownership import Owns, owns_all, owns_shard
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_schemas.names import Signal

logger = logging.getLogger(__name__)


def instance(ingest: Ingest) -> str | None:
    """Return what tells this poller from the others, where there are others."""
    if ingest.kafka.brokers:
        return socket.gethostname()
    return None if ingest.shard is None else f"shard-{ingest.shard.index}"


def ownership(shard: Shard | None) -> Owns:
    """Return whose sandboxes are this poller's, and say so where they are not all."""
    if shard is None:
        return owns_all
    if shard.index >= shard.count:
        logger.warning("shard %s stands by: it keeps the feed and reads nothing; the first shard is 0", shard)
    else:
        logger.info("shard %s: sandboxes of others are kept and not read", shard)
    return owns_shard(shard.index, shard.count)


def routing(config: Config) -> Routing:
    """Return which sandboxes are of which deployment."""
    return Routing([DeploymentNames(d.name, d.provider, d.identities) for d in config.deployments])


def ingest_settings(ingest: Ingest) -> IngestSettings:
    """Return where and how spans are taken in; raises OSError for a certificate that cannot be loaded."""
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


def reading_settings(config: Config) -> ReadingSettings:
    """Return how often what is read."""
    sampling = config.sampling
    return ReadingSettings(
        # Without traces there is nobody to read for: gauges alone never start a sampler.
        collection_interval=sampling.collection_interval if config.export.traces else 0.0,
        min_interval=sampling.min_interval,
        initial_delay=sampling.initial_delay,
        collection_jitter=sampling.collection_jitter,
        refresh_interval=config.allocation.refresh_interval,
        orphan_grace=config.tracking.orphan_grace,
        summary_delay=config.tracking.summary_delay,
    )


def point_settings(config: Config) -> PointSettings:
    """Return which points there are, and what they carry."""
    export = config.export
    return PointSettings(
        metrics=export.metrics,
        rollout_id=export.metric_ids.rollout,
        request_id=export.metric_ids.request,
        max_clock_skew_ns=round(config.sampling.max_clock_skew * 1e9),
    )


def delivery_settings(export: Export) -> DeliverySettings:
    """Return how patiently records are sent."""
    return DeliverySettings(
        timeout_s=export.timeout,
        initial_interval_s=export.retry_on_failure.initial_interval,
        max_interval_s=export.retry_on_failure.max_interval,
        metrics_max_age_s=export.metrics_max_age,
    )


def metrics_sender(export: Export) -> Callable[[bytes], bool]:
    """Return what sends the poller's own metrics and says whether they arrived."""
    client = connect(export)

    def is_delivered(message: bytes) -> bool:
        outcome = send(client.post, Signal.METRICS, message, timeout_s=export.timeout, now_s=time.time())
        return outcome.verdict is Verdict.DELIVERED

    return is_delivered
