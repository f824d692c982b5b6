"""The Kafka client, an extra: imported when it is used, and spoken to in one place."""

import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module
from typing import Any

from sandgauge_poller.config import Kafka

HEARTBEATS = 10
"""In the time after which a silent poller counts as dead; at the first of them it hears that the shares change."""

_REQUEST_TIMEOUT_S = 5.0
"""A span's sender waits ten seconds for its answer, and a poller that stops five."""

_LOOK_AROUND_S = 10.0
"""So soon partitions are found that a topic has newly got; what is in them is read from the start."""

_LET_IN = "write the mechanism, username and password that the brokers know"
_TRUST = "name the authority that signed it as ca_file, or in brokers a host that it is made out to"
_BE_THERE = (
    "start a broker there, or name another; where the brokers ask for TLS or a password, set ingest.kafka.tls and"
    " ingest.kafka.auth"
)

OnShare = Callable[[set[int]], Awaitable[None]]
"""Hear of partitions that are taken away or given."""


class KafkaUnavailableError(OSError):
    """Kafka cannot be used: the message names the key and the cure."""


class KafkaClients:
    """Makes clients for the configured brokers; raises KafkaUnavailableError where the extra is missing."""

    def __init__(self, kafka: Kafka) -> None:
        try:
            # By name, since it ships no types.
            self._aiokafka = import_module("aiokafka")
            self._admin = import_module("aiokafka.admin")
            self._connect = import_module("aiokafka.conn").create_conn
            self._config_resource = import_module("aiokafka.admin.config_resource").ConfigResource
            errors = import_module("aiokafka.errors")
            sticky = import_module("aiokafka.coordinator.assignors.sticky.sticky_assignor")
        except ImportError as error:
            raise KafkaUnavailableError(
                "ingest.kafka: needs the extra `kafka`; pip install 'sandgauge[kafka]'"
            ) from error
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] == "aiokafka":
                logging.getLogger(name).addFilter(_call_it_a_warning)
        self._kafka = kafka
        self._sticky = sticky.StickyPartitionAssignor
        self._refusals = (
            errors.AuthenticationFailedError,
            errors.SaslAuthenticationFailed,
            errors.UnsupportedSaslMechanismError,
            errors.IllegalSaslStateError,
        )
        self.error: type[Exception] = errors.KafkaError
        """What every failure of a client is."""

    async def started(self, client: Any) -> Any:
        """Start a client; raises KafkaUnavailableError where no broker lets it in."""
        try:
            await client.start()
        except self.error as error:
            await (client.close if isinstance(client, self._admin.AIOKafkaAdminClient) else client.stop)()
            raise KafkaUnavailableError(await self._what_is_wrong(type(error).__name__)) from error
        return client

    async def _what_is_wrong(self, failure: str) -> str:
        """Knock at each broker once more, since of what went wrong there a client tells its log alone."""
        common = self._common()
        brokers = common.pop("bootstrap_servers")
        for broker in brokers:
            host, _, port = broker.rpartition(":")
            try:
                connection = await self._connect(
                    host.strip("[]"), int(port), **common, request_timeout_ms=_ms(_REQUEST_TIMEOUT_S)
                )
            except self._refusals as error:
                kind = type(error).__name__
                return f"ingest.kafka.auth.sasl: {broker} refuses the poller ({kind}); {_LET_IN}"
            except ssl.SSLCertVerificationError as error:
                return (
                    f"ingest.kafka.tls: the certificate of {broker} is not trusted ({error.verify_message}); {_TRUST}"
                )
            except (OSError, self.error):
                continue
            connection.close()
        where = ", ".join(brokers)
        return f"ingest.kafka.brokers: {where} cannot be used ({failure}); {_BE_THERE}"

    def admin(self) -> Any:
        """Return a client that makes topics."""
        return self._admin.AIOKafkaAdminClient(**self._common(), request_timeout_ms=_ms(_REQUEST_TIMEOUT_S))

    def new_topic(self, name: str, partitions: int, **settings: str) -> Any:
        """Return a topic to be made, with as many replicas as the brokers give by themselves."""
        return self._admin.NewTopic(
            name, partitions, replication_factor=-1, replica_assignments={}, topic_configs=settings
        )

    def topic_settings(self, name: str, *settings: str) -> Any:
        """Return what asks an admin for settings of a topic."""
        return self._config_resource("TOPIC", name, dict.fromkeys(settings))

    def producer(self) -> Any:
        """Return a client whose messages are acknowledged once all replicas in sync have them, each once."""
        return self._aiokafka.AIOKafkaProducer(
            **self._common(),
            acks="all",
            enable_idempotence=True,
            compression_type="gzip",
            linger_ms=5,
            metadata_max_age_ms=_ms(_LOOK_AROUND_S),
            request_timeout_ms=_ms(_REQUEST_TIMEOUT_S),
        )

    def consumer(self, group_id: str) -> Any:
        """Return a client that reads from the start what its group has not; its offsets are moved by hand."""
        return self._aiokafka.AIOKafkaConsumer(
            **self._common(),
            group_id=group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=_ms(_LOOK_AROUND_S),
            session_timeout_ms=_ms(self._kafka.session_timeout),
            heartbeat_interval_ms=_ms(self._kafka.session_timeout / HEARTBEATS),
            rebalance_timeout_ms=_ms(max(self._kafka.session_timeout, 2 * _REQUEST_TIMEOUT_S)),
            # A class for each, since it keeps in the class what the group gave last.
            partition_assignment_strategy=(type("Assignor", (self._sticky,), {}),),
            request_timeout_ms=_ms(_REQUEST_TIMEOUT_S + self._kafka.session_timeout),
        )

    def partition(self, topic: str, number: int) -> Any:
        """Return what stands for a partition in the client's calls."""
        return self._aiokafka.TopicPartition(topic, number)

    def listener(self, revoked: OnShare, assigned: OnShare) -> Any:
        """Return what a consumer tells of its share: both get the partitions' numbers."""

        def told(on_share: OnShare) -> Callable[[object, Iterable[Any]], Awaitable[None]]:
            return lambda _, partitions: on_share({partition.partition for partition in partitions})

        methods = {"on_partitions_revoked": told(revoked), "on_partitions_assigned": told(assigned)}
        return type("Listener", (self._aiokafka.ConsumerRebalanceListener,), methods)()

    def _common(self) -> dict[str, Any]:
        kafka = self._kafka
        sasl = kafka.auth.sasl
        protocol = ("SASL_" if sasl.username else "") + ("SSL" if kafka.tls.enabled else "PLAINTEXT")
        return {
            "bootstrap_servers": list(kafka.brokers),
            "client_id": "sandgauge",
            "security_protocol": protocol,
            "ssl_context": _tls(kafka) if kafka.tls.enabled else None,
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": sasl.username or None,
            "sasl_plain_password": sasl.password.get_secret_value() or None,
        }


def _call_it_a_warning(record: logging.LogRecord) -> bool:
    """Let the log have what the client calls an error and then tries again by itself."""
    if record.levelno == logging.ERROR:
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True


def _tls(kafka: Kafka) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=kafka.tls.ca_file)
    if kafka.tls.cert_file is not None:
        context.load_cert_chain(kafka.tls.cert_file, kafka.tls.key_file)
    if kafka.tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
