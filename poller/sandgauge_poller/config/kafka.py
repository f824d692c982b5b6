"""Kafka as the feed of several pollers; names follow the Collector's Kafka exporter and receiver."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_poller.config.section import EMPTY_WHEN_NONE, Section
from sandgauge_poller.config.tls import MutualTls
from sandgauge_poller.config.values import Name, PositiveDuration, Secret

_BROKER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_PORTS = range(1, 2**16)


def _broker(text: str) -> str:
    match = _BROKER.fullmatch(text)
    if match is None or int(match["port"]) not in _PORTS:
        raise InvalidValueError("is not host:port", "write host:port, such as kafka-0.kafka:9092")
    return text


class KafkaTls(MutualTls):
    """How brokers are spoken to; without `enabled` in plain text."""

    enabled: bool = False


class Sasl(Section):
    """Who the poller is; an empty username asks for nothing."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    username: str = ""
    password: Secret = SecretStr("")


class KafkaAuth(Section):
    """What brokers are shown."""

    sasl: Sasl = Sasl()


class Kafka(Section):
    """The brokers, and what there is on them; without brokers Kafka plays no part."""

    brokers: Annotated[tuple[Annotated[str, AfterValidator(_broker)], ...], EMPTY_WHEN_NONE] = ()
    topic: Name = "sandgauge-lifecycle"
    group_id: Name = "sandgauge"
    partitions: Annotated[int, Field(gt=0, le=1000)] = 32
    session_timeout: PositiveDuration = 6.0
    tls: KafkaTls = KafkaTls()
    auth: KafkaAuth = KafkaAuth()

    @field_validator("auth")
    @classmethod
    def _no_password_in_plain_text(cls, auth: KafkaAuth, info: ValidationInfo) -> KafkaAuth:
        tls = info.data.get("tls")
        if tls is not None and auth.sasl.mechanism == "PLAIN" and auth.sasl.username and not tls.enabled:
            raise InvalidValueError(
                "would be sent in plain text",
                "set tls.enabled: true, or use a SCRAM mechanism",
                below=("sasl", "password"),
            )
        return auth
