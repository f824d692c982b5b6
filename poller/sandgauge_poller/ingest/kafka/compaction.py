"""Whether the brokers keep what the topic of sandboxes must not lose: of each key the last value."""

from typing import Any, NamedTuple

from sandgauge_poller.ingest.kafka.client import KafkaClients

_SETTING = "cleanup.policy"
_COMPACT = "compact"


class Complaint(NamedTuple):
    """What is wrong with the topic, and the cure; `is_known` is False where the brokers do not let anybody look."""

    is_known: bool
    detail: str
    cure: str


async def complaint(clients: KafkaClients, admin: Any, topic: str) -> Complaint | None:
    """Look at the topic's setting and return what is wrong with it; raises the client's error."""
    (answer,) = await admin.describe_configs([clients.topic_settings(topic, _SETTING)])
    ((code, _, _, _, entries),) = answer.resources
    policy = next((value for name, value, *_ in entries if name == _SETTING), None)
    if policy == _COMPACT:
        return None
    change = f"kafka-configs --bootstrap-server … --alter --topic {topic} --add-config {_SETTING}={_COMPACT}"
    if policy is None:
        detail = f"whether topic {topic} is compacted cannot be looked at (Kafka's error {code})"
        return Complaint(False, detail, f"let the poller describe its settings; if it is not, {change}")
    return Complaint(True, f"topic {topic} has {_SETTING}={policy}, so sandboxes that still run are forgotten", change)
