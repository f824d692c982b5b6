"""The configuration as frozen models: every key with its default, durations in seconds, sizes in bytes.

Checks over several keys stand with the last of them, since pydantic checks fields in their order and a check must not
vanish because an unrelated key is wrong.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationInfo, field_validator

from sandgauge_poller.config.deployment import Deployment
from sandgauge_poller.config.errors import ConfigWarning, InvalidValueError
from sandgauge_poller.config.kafka import Kafka
from sandgauge_poller.config.section import EMPTY_WHEN_NONE, PositiveInt, Section
from sandgauge_poller.config.shard import Shard
from sandgauge_poller.config.tls import ClientTls, ServerTls
from sandgauge_poller.config.units import format_duration
from sandgauge_poller.config.urls import ListenAddress
from sandgauge_poller.config.usage import Usage, with_daemons_of_their_own
from sandgauge_poller.config.values import (
    CollectorUrl,
    Duration,
    Folder,
    HeaderName,
    Listen,
    OptionalShard,
    PositiveDuration,
    Secret,
    Size,
)


class Auth(Section):
    """What a caller must show; an empty token asks for nothing."""

    bearer_token: Secret = SecretStr("")


class Listener(Section):
    """A server of the poller."""

    auth: Auth = Auth()
    insecure_listen: bool = False
    endpoint: Listen

    @field_validator("endpoint")
    @classmethod
    def _guarded_beyond_loopback(cls, endpoint: ListenAddress, info: ValidationInfo) -> ListenAddress:
        auth, insecure = info.data.get("auth"), info.data.get("insecure_listen")
        if auth is None or insecure is None or endpoint.is_loopback or insecure or auth.bearer_token.get_secret_value():
            return endpoint
        raise InvalidValueError(
            "is open to other machines without a token",
            "set auth.bearer_token beside it, or insecure_listen: true, or listen on 127.0.0.1",
        )


class Ingest(Listener):
    """Where lifecycle spans come in, and which poller of several this is; the body limit counts decompressed bytes."""

    endpoint: Listen = ListenAddress("127.0.0.1", 4319)
    max_request_body_size: Size = 20 * 1024**2
    tls: ServerTls = ServerTls()
    shard: OptionalShard = None
    kafka: Kafka = Kafka()

    @field_validator("kafka")
    @classmethod
    def _one_way_to_share(cls, kafka: Kafka, info: ValidationInfo) -> Kafka:
        if kafka.brokers and info.data.get("shard") is not None:
            cure = "leave out ingest.shard: with Kafka the pollers share the sandboxes by themselves"
            raise InvalidValueError("stands beside ingest.shard", cure, below=("brokers",))
        return kafka


class Status(Listener):
    """Where health, page and JSON are served."""

    endpoint: Listen = ListenAddress("127.0.0.1", 8099)


class Sampling(Section):
    """When each sandbox is read; a collection interval of 0 means no reads at all."""

    min_interval: PositiveDuration = 2.0
    collection_interval: Duration = 10.0
    initial_delay: Duration = 0.0
    collection_jitter: Duration = 0.0
    timeout: PositiveDuration = 2.0
    max_clock_skew: PositiveDuration = 60.0

    @field_validator("collection_interval")
    @classmethod
    def _no_shorter_than_the_least(cls, interval: float, info: ValidationInfo) -> float:
        least = info.data.get("min_interval")
        if least is not None and 0 < interval < least:
            raise InvalidValueError(
                f"is shorter than min_interval ({format_duration(least)})",
                "raise it, lower sampling.min_interval, or write 0 for no reads",
            )
        return interval


class Allocation(Section):
    """How often what is in force is asked for again."""

    refresh_interval: PositiveDuration = 300.0
    timeout: PositiveDuration = 2.0


class Tracking(Section):
    """How many sandboxes are followed, and how long their ends may take."""

    max_sandboxes: PositiveInt = 50_000
    orphan_grace: Duration = 300.0
    summary_delay: Duration = 600.0


class MetricIds(Section):
    """Which ids of high cardinality the gauges carry."""

    rollout: bool = True
    request: bool = True


class RetryOnFailure(Section):
    """Pauses between attempts of a delivery."""

    initial_interval: PositiveDuration = 1.0
    max_interval: PositiveDuration = 30.0

    @field_validator("max_interval")
    @classmethod
    def _no_shorter_than_the_first(cls, longest: float, info: ValidationInfo) -> float:
        first = info.data.get("initial_interval")
        if first is not None and longest < first:
            raise InvalidValueError(f"is shorter than initial_interval ({format_duration(first)})", "raise it")
        return longest


class SendingQueue(Section):
    """Bytes of undelivered records kept on disk."""

    max_size: Size = 256 * 1024**2


class Export(Section):
    """The Collector that takes the records; header values are sent byte for byte."""

    endpoint: CollectorUrl = "http://127.0.0.1:4318"
    headers: Annotated[Mapping[HeaderName, Secret], BeforeValidator(lambda value: {} if value is None else value)] = (
        Field(default_factory=dict)
    )
    tls: ClientTls = ClientTls()
    traces: bool = True
    metrics: bool = True
    metric_ids: MetricIds = MetricIds()
    metrics_max_age: PositiveDuration = 900.0
    compression: Literal["gzip", "none"] = "gzip"
    timeout: PositiveDuration = 10.0
    retry_on_failure: RetryOnFailure = RetryOnFailure()
    sending_queue: SendingQueue = SendingQueue()


class State(Section):
    """Where the store lives; one poller for each folder."""

    directory: Folder = Path("sandgauge-state")


class Logs(Section):
    """What is logged, and how it looks."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


class Config(Section):
    """The whole configuration of a poller."""

    ingest: Ingest = Ingest()
    deployments: Annotated[tuple[Deployment, ...], EMPTY_WHEN_NONE] = ()
    sampling: Sampling = Sampling()
    allocation: Allocation = Allocation()
    usage: Annotated[tuple[Usage, ...], EMPTY_WHEN_NONE] = ()
    tracking: Tracking = Tracking()
    export: Export = Export()
    state: State = State()
    status: Status = Status()
    logs: Logs = Logs()

    _warnings: tuple[ConfigWarning, ...] = PrivateAttr(())

    @field_validator("export")
    @classmethod
    def _not_back_to_itself(cls, export: Export, info: ValidationInfo) -> Export:
        ingest = info.data.get("ingest")
        if ingest is not None and ingest.endpoint.is_at(export.endpoint):
            cure = "name the Collector's OTLP/HTTP port, most often 4318"
            raise InvalidValueError("is the poller's own ingest.endpoint", cure, below=("endpoint",))
        return export

    @field_validator("status")
    @classmethod
    def _beside_ingest(cls, status: Status, info: ValidationInfo) -> Status:
        ingest = info.data.get("ingest")
        if ingest is not None and status.endpoint.port != 0 and status.endpoint == ingest.endpoint:
            raise InvalidValueError("is the same as ingest.endpoint", "choose another port", below=("endpoint",))
        return status

    def as_shard(self, shard: Shard) -> "Config":
        """Return the same configuration for another of several pollers; raises InvalidValueError beside Kafka."""
        if self.ingest.kafka.brokers:
            raise InvalidValueError(
                "stands beside ingest.kafka.brokers",
                "leave one of them out: with Kafka the pollers share the sandboxes by themselves",
            )
        return self.model_copy(update={"ingest": self.ingest.model_copy(update={"shard": shard})})

    @property
    def usage_sources(self) -> tuple[Usage, ...]:
        """The sources that are asked: those of the file, and the Docker daemons that are deployments themselves."""
        # With an interval of 0 nothing is read; the source then has nobody to ask for.
        interval = self.sampling.collection_interval or self.sampling.min_interval
        return with_daemons_of_their_own(self.usage, self.deployments, interval, self.sampling.timeout)

    @property
    def warnings(self) -> tuple[ConfigWarning, ...]:
        """What `load_config` found odd, though not wrong."""
        return self._warnings

    def with_warnings(self, warnings: tuple[ConfigWarning, ...]) -> "Config":
        """Return the same configuration with warnings."""
        copy = self.model_copy()
        copy._warnings = warnings  # noqa: SLF001  # the same class
        return copy
