"""Every combination of the shipped overlays: it is valid, keeps the feed safe, and can be secured whole."""

import subprocess
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml

from support.real_collector import KAFKA, SECURITY, SHARDS, config_files, overlays, real_collector

pytestmark = pytest.mark.integration

COMBINATIONS = [chosen for count in range(len(overlays()) + 1) for chosen in combinations(overlays(), count)]
COMBINATIONS += [(KAFKA,), (KAFKA, *(name for name in overlays() if name != SHARDS))]
FEEDS = ("otlp_http/poller", "kafka/pollers")

# None of these drops or samples: the limiter refuses whole requests, which are sent again, and the filter goes by name.
ON_THE_FEED = ["memory_limiter", "filter/lifecycle", "transform/keys"]


@pytest.fixture(scope="module")
def print_config():
    """Return the configuration as the Collector puts it together from files, with every default filled in."""
    binary = real_collector(config_files(*overlays()))

    def run(*configuration, environment=None):
        command = [binary, "print-config", *(f"--config={path}" for path in configuration)]
        said = subprocess.run(command, env=environment or {}, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stderr) == (0, "")
        return yaml.load(said.stdout, Loader=yaml.CSafeLoader)  # several times as fast as the plain one

    return run


def unsafe(config: dict[str, Any]) -> Iterator[str]:
    """Yield what could lose spans of the feed, or turn a dead backend into an error for Gym."""
    feeds = []
    for name, pipeline in config["service"]["pipelines"].items():
        if "otlp" in pipeline["receivers"] and pipeline["processors"][:1] != ["memory_limiter"]:
            yield f"{name} takes in without a limit"
        if any(exporter.startswith(FEEDS) for exporter in pipeline["exporters"]):
            feeds.append(name)
            yield from unsafe_feed(name, pipeline, config["exporters"])
        elif not is_decoupled(pipeline, config["connectors"]):
            yield f"{name} can push back on its senders"
    if feeds != ["traces/lifecycle"]:
        yield f"the feed is made of {feeds}"


def unsafe_feed(name: str, pipeline: dict[str, Any], exporters: dict[str, Any]) -> Iterator[str]:
    if (pipeline["receivers"], pipeline["processors"]) != (["otlp"], ON_THE_FEED):
        yield f"{name} is {pipeline['receivers']} through {pipeline['processors']}"
    for exporter in pipeline["exporters"]:
        queue, retry = exporters[exporter]["sending_queue"], exporters[exporter]["retry_on_failure"]
        if (queue["storage"], queue["batch"], queue["num_consumers"]) != ("file_storage/queues", None, 1):
            yield f"{exporter} does not queue one by one on disk"
        if not retry["enabled"] or retry["max_elapsed_time"] != "0s":
            yield f"{exporter} gives up"


def is_decoupled(pipeline: dict[str, Any], connectors: dict[str, Any]) -> bool:
    """Say whether a full queue behind the pipeline never becomes an error before it: a batch processor swallows it."""
    if any(processor.startswith("batch/") for processor in pipeline["processors"]):
        return True
    return all(exporter in connectors for exporter in pipeline["exporters"])


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=lambda names: "+".join(name.split(".")[1] for name in names))
def test_is_valid_without_a_word_and_safe(print_config, chosen):
    assert list(unsafe(print_config(*config_files(*chosen)))) == []


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        ("service: {pipelines: {traces/lifecycle: {processors: [memory_limiter, batch/decouple]}}}", "lifecycle is"),
        ("service: {pipelines: {traces/lifecycle: {processors: [filter/lifecycle]}}}", "lifecycle takes in without"),
        ("service: {pipelines: {traces/store: {processors: [memory_limiter]}}}", "traces/store can push back"),
        ("service: {pipelines: {metrics/store: {processors: [memory_limiter]}}}", "metrics/store can push back"),
        ("exporters: {otlp_http/poller: {retry_on_failure: {max_elapsed_time: 5m}}}", "otlp_http/poller gives up"),
        ("exporters: {otlp_http/poller: {sending_queue: {storage: null}}}", "otlp_http/poller does not queue"),
        ("service: {pipelines: {traces/store: {exporters: [otlp_http/poller]}}}", "the feed is made of"),
    ],
)
def test_what_would_be_unsafe_is_seen(tmp_path, print_config, own, complaint):
    overlay = tmp_path / "own.yaml"
    overlay.write_text(own)
    assert complaint in "\n".join(unsafe(print_config(*config_files(), overlay)))


def test_the_overlays_leave_each_part_of_the_base_as_it_was(print_config):
    """Settings may come on top; none of the base's may be gone, but for where data goes."""
    base, whole = print_config(*config_files()), print_config(*config_files(*overlays()))
    for kind in ("processors", "connectors"):
        assert {name: whole[kind][name] for name in base[kind]} == base[kind]
    for name, exporter in base["exporters"].items():
        for key in ("sending_queue", "retry_on_failure", "timeout", "compression"):
            assert whole["exporters"][name][key] == exporter[key]


def test_security_is_on_every_hop_of_every_overlay_whatever_the_addresses_say(print_config):
    plain = dict.fromkeys(
        (
            *("POLLER_OTLP_ENDPOINT", "POLLER_0_OTLP_ENDPOINT", "POLLER_1_OTLP_ENDPOINT"),
            *("TRACES_OTLP_ENDPOINT", "METRICS_OTLP_ENDPOINT", "PROMETHEUS_REMOTE_WRITE_ENDPOINT"),
        ),
        "http://plain.example.com",
    )
    config = print_config(*config_files(*overlays()), environment=plain)
    listening = config["receivers"]["otlp"]["protocols"]
    clients = {
        name: exporter.get("http", exporter)
        for name, exporter in config["exporters"].items()
        if not name.startswith("file/")
    }
    assert set(listening) == {"grpc", "http"}
    assert len(clients) == 5
    for server in listening.values():
        assert server["auth"]["authenticator"] == "bearertokenauth/senders"
        assert server["tls"]["cert_file"].endswith("/tls.crt")
    for client in clients.values():
        assert client["endpoint"].startswith("https://")
        assert client["auth"]["authenticator"] in config["service"]["extensions"]
        # Nothing but these two, so nothing that trusts anybody.
        assert set(client["tls"]) == {"ca_file", "reload_interval"}


def test_one_variable_moves_all_listeners_off_loopback(print_config):
    def listeners(environment):
        config = print_config(*config_files(SECURITY), environment=environment)
        (reader,) = config["service"]["telemetry"]["metrics"]["readers"]
        servers = [*config["receivers"]["otlp"]["protocols"].values(), config["extensions"]["health_check"]]
        addresses = [server.get("endpoint") or server["netaddr"]["endpoint"] for server in servers]
        return {address.rsplit(":", 1)[0] for address in addresses} | {reader["pull"]["exporter"]["prometheus"]["host"]}

    assert listeners({}) == {"127.0.0.1"}
    assert listeners({"OTELCOL_BIND": "0.0.0.0"}) == {"0.0.0.0"}
