"""The configuration as frozen models: every key with its default, durations in seconds, sizes in bytes.

Checks over several keys stand with the last of them, since pydantic checks fields in their order and a check must not
vanish because an unrelated key is wrong.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sandgauge_poller.config.errors import ConfigWarning, InvalidValueError
from sandgauge_poller.config.units import format_duration
from sandgauge_poller.config.urls import ListenAddress
from sandgauge_poller.config.values import (
    CollectorUrl,
    ControlPlaneUrl,
    Duration,
    ExecdSwitch,
    Folder,
    HeaderName,
    HostRule,
    Listen,
    Name,
    OptionalAuthority,
    OptionalFile,
    PositiveDuration,
    ProxyUse,
    Secret,
    ServerProxy,
    Size,
    UsageSources,
)

_EMPTY_WHEN_NONE = BeforeValidator(lambda value: () if value is None else value)
PositiveInt = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """Keys that stand together; a section with nothing beneath it is all defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _defaults_when_empty(cls, value: object) -> object:
        return {} if value is None else value


class Auth(Section):
    """What a caller must show; an empty token asks for nothing."""

    bearer_token: Secret = SecretStr("")


class ServerTls(Section):
    """Certificate of a server; without files it speaks plain HTTP."""

    cert_file: OptionalFile = None
    key_file: OptionalFile = None

    @field_validator("key_file")
    @classmethod
    def _comes_as_a_pair(cls, key_file: object, info: ValidationInfo) -> object:
        if "cert_file" in info.data and (key_file is None) != (info.data["cert_file"] is None):
            raise InvalidValueError("and cert_file come as a pair", "name both files, or neither")
        return key_file

    @model_validator(mode="after")
    def _fit_together(self) -> "ServerTls":
        if self.cert_file is not None:
            try:
                # Without a password the library would ask the terminal for that of an encrypted key.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert_file, self.key_file, password="")
            except OSError:
                raise InvalidValueError(
                    "and cert_file are no certificate with its own, unencrypted key",
                    "name two files in PEM form that belong together",
                    below=("key_file",),
                ) from None
        return self


class ClientTls(Section):
    """How the certificate of a called server is checked; without a file by the system's authorities."""

    ca_file: OptionalAuthority = None
    insecure_skip_verify: bool = False


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
    """Where lifecycle spans come in; the body limit counts decompressed bytes."""

    endpoint: Listen = ListenAddress("127.0.0.1", 4319)
    max_request_body_size: Size = 20 * 1024**2
    tls: ServerTls = ServerTls()


class Status(Listener):
    """Where health, page and JSON are served."""

    endpoint: Listen = ListenAddress("127.0.0.1", 8099)


class Deployment(Section):
    """One control plane; `endpoint` and `scopes` are held as `scope_identity` gives them."""

    name: Name
    provider: Literal["opensandbox"] = "opensandbox"
    endpoint: ControlPlaneUrl
    scopes: Annotated[tuple[ControlPlaneUrl, ...], _EMPTY_WHEN_NONE] = ()
    api_key: Secret = SecretStr("")
    tls: ClientTls = ClientTls()
    use_server_proxy: ServerProxy = ProxyUse.AUTO
    allowed_endpoint_hosts: Annotated[tuple[HostRule, ...], _EMPTY_WHEN_NONE] = ()
    max_concurrent_proxied_reads: PositiveInt = 16
    max_requests_per_second: Annotated[float, Field(ge=0.1, allow_inf_nan=False)] = 50.0
    execd: ExecdSwitch = True

    @property
    def identities(self) -> frozenset[str]:
        """Every scope identity under which spans may name this control plane."""
        return frozenset((self.endpoint, *self.scopes))


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
    deployments: Annotated[tuple[Deployment, ...], _EMPTY_WHEN_NONE] = ()
    sampling: Sampling = Sampling()
    allocation: Allocation = Allocation()
    usage: Annotated[UsageSources, _EMPTY_WHEN_NONE] = ()
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

    @property
    def warnings(self) -> tuple[ConfigWarning, ...]:
        """What `load_config` found odd, though not wrong."""
        return self._warnings

    def with_warnings(self, warnings: tuple[ConfigWarning, ...]) -> "Config":
        """Return the same configuration with warnings."""
        copy = self.model_copy()
        copy._warnings = warnings  # noqa: SLF001  # the same class
        return copy
