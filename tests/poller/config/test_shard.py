"""Which of several pollers one is."""

import pytest

from sandgauge_poller.config import Config, InvalidValueError, Shard, as_yaml, load_config, parse_shard


@pytest.mark.parametrize(
    ("text", "shard"),
    [
        ("", None),
        ("0/1", Shard(0, 1)),
        ("2/3", Shard(2, 3)),
        ("poller-2/3", Shard(2, 3)),
        ("sandgauge-poller-11/12", Shard(11, 12)),
        ("3/3", Shard(3, 3)),  # stands by until the count grows
    ],
)
def test_a_shard(text, shard):
    assert parse_shard(text) == shard


@pytest.mark.parametrize(
    "text", ["1", "/3", "1/", "1/x", "-1/3", "1/0", "1 / 3", "poller/3", "poller2/3", "1/99999", "1/2/3"]
)
def test_no_shard(text):
    with pytest.raises(InvalidValueError):
        parse_shard(text)


def test_a_pod_finds_its_index_in_its_host_name(tmp_path):
    path = tmp_path / "sandgauge.yaml"
    path.write_text('ingest: {shard: "${env:HOSTNAME}/3"}\n')
    config = load_config(path, {"HOSTNAME": "sandgauge-poller-2"})
    assert config.ingest.shard == Shard(2, 3)
    assert "shard: 2/3" in as_yaml(config)


def test_the_command_line_has_the_last_word():
    assert Config().as_shard(Shard(1, 2)) == Config.model_validate({"ingest": {"shard": "1/2"}})
