"""What is said of the topic of sandboxes where the brokers do not let the poller look at its settings."""

from types import SimpleNamespace

from sandgauge_poller.ingest.kafka.compaction import complaint

NOT_ALLOWED = 29


async def test_where_it_cannot_be_looked_at_that_is_said_with_what_to_see_to():
    async def describe_configs(asked):
        assert asked == [("topic-of-sandboxes", "cleanup.policy")]
        return [SimpleNamespace(resources=[(NOT_ALLOWED, "no", 2, "topic-of-sandboxes", [])])]

    clients = SimpleNamespace(topic_settings=lambda *asked: asked)
    found = await complaint(clients, SimpleNamespace(describe_configs=describe_configs), "topic-of-sandboxes")
    assert not found.is_known
    assert found.detail == "whether topic topic-of-sandboxes is compacted cannot be looked at (Kafka's error 29)"
    assert "let the poller describe its settings" in found.cure
    assert found.cure.endswith("--alter --topic topic-of-sandboxes --add-config cleanup.policy=compact")
