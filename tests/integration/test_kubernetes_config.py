"""What the Kubernetes manifests configure, given to the real programs: both take it, and they understand each other."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sandgauge_demo.collector import Destinations, RunningCollector
from sandgauge_poller.cli import cli
from sandgauge_poller.config import Config, load_config, parse_shard
from sandgauge_poller.health import complaint
from sandgauge_schemas.quantity import parse_quantity
from support.direct_session import direct_session
from support.documents import code_block, document
from support.feed import GYM, start_span
from support.manifests import ROOT, Manifests, config_files, kustomization, ports, probes
from support.otlp_json import from_resource, traces
from support.otlp_sink import OtlpSink
from support.real_collector import NOBODY, real_collector, send
from support.running_poller import RunningPoller
from support.waiting import wait_until

pytestmark = pytest.mark.integration

SECRET = {"poller-token": "0123abcd", "opensandbox-api-key": "invented"}
POLLER, COLLECTOR = "sandgauge-poller", "sandgauge-collector"
ACTIVE = 'sandgauge_poller_sandboxes{deployment="opensandbox",state="active"} 1.0'


@pytest.fixture(scope="module")
def manifests():
    return Manifests.of(ROOT)


@pytest.fixture
def configuration(manifests, tmp_path):
    """The poller's file, as it is mounted."""
    (text,) = manifests.mounted_files(POLLER).values()
    file = tmp_path / "sandgauge.yaml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return Manifests.of(kustomization(tmp_path_factory.mktemp("shards"), "shards"))


def written(manifests, folder):
    """Write the Collector's files, and return them in the order of its arguments."""
    mounted = manifests.mounted_files(COLLECTOR)
    files = []
    for path in config_files(manifests.container(COLLECTOR)):
        files.append(folder / Path(path).name)
        files[-1].write_text(mounted[path])
    return files


@pytest.fixture
def collector_files(manifests, tmp_path):
    return written(manifests, tmp_path)


def test_the_pollers_configuration_is_without_fault_or_warning(manifests, configuration):
    environ = manifests.environment(POLLER, SECRET)
    checked = CliRunner().invoke(cli, ["check", "--config", str(configuration)], env=environ)
    assert (checked.exit_code, checked.output) == (0, "ok: 1 deployment\n")


def test_the_poller_listens_where_its_probes_and_services_look(manifests, configuration):
    config = load_config(configuration, manifests.environment(POLLER, SECRET))
    defaults = Config()
    served = ports(manifests.container(POLLER))
    assert served == {"ingest": config.ingest.endpoint.port, "status": config.status.endpoint.port}
    assert served == {"ingest": defaults.ingest.endpoint.port, "status": defaults.status.endpoint.port}
    for listener in (config.ingest, config.status):
        assert not listener.endpoint.is_loopback
        assert listener.auth.bearer_token.get_secret_value() == SECRET["poller-token"]


def validated(files, environ):
    """Have the real Collector check files, and return how it ended and what it said."""
    command = [real_collector(files), "validate", *(f"--config={file}" for file in files)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("variant", ["manifests", "shards"])
def test_the_collector_takes_its_files_and_says_nothing_against_them(variant, request, tmp_path):
    manifests = request.getfixturevalue(variant)
    files = written(manifests, tmp_path)
    assert validated(files, manifests.environment(COLLECTOR, SECRET)) == (0, "", "")


@pytest.fixture
def poller(manifests, configuration, tmp_path, monkeypatch):
    """Not started yet: as the manifests configure it, but on loopback, and with a control plane that is away."""
    for name, value in manifests.environment(POLLER, SECRET).items():
        monkeypatch.setenv(name, value)
    poller = RunningPoller(tmp_path / "poller")
    shipped, own = (yaml.safe_load(file.read_text()) for file in (configuration, poller.config_file))
    (deployment,) = shipped["deployments"]
    sections = {name: {**shipped[name], **own[name]} for name in ("ingest", "status", "state")}
    poller.configure({**sections, "deployments": [{**deployment, "endpoint": NOBODY}]})
    return poller


@pytest.fixture
def collector(manifests, collector_files, poller, tmp_path):
    """Not started yet: as the manifests configure it, but on loopback."""
    settings = manifests.environment(COLLECTOR, SECRET)
    return RunningCollector(
        real_collector(collector_files),
        collector_files,
        directory=tmp_path / "collector",
        destinations=Destinations(poller=poller.endpoint, traces=NOBODY, metrics=NOBODY),
        settings={"POLLER_TOKEN": settings["POLLER_TOKEN"]},
    )


def test_the_collector_shows_the_token_of_the_secret_and_the_poller_takes_the_feed(collector, poller):
    with collector, poller, direct_session() as session:
        session.headers["Authorization"] = f"Bearer {SECRET['poller-token']}"
        assert send(collector, traces(from_resource(GYM, start_span("sandbox-1")))) == 200
        wait_until(
            lambda: ACTIVE in session.get(f"{poller.status_url}/metrics", timeout=60).text,
            timeout_s=60,
            what="a sandbox that the poller knows",
        )


def test_both_answer_their_probes_without_a_token(manifests, collector, poller):
    with collector, poller:
        for probe in probes(manifests.container(POLLER)).values():
            assert complaint(f"{poller.status_url}{probe['httpGet']['path']}") is None
            assert probe["httpGet"]["port"] == "status"
        # It counts as started once it answers there.
        assert {probe["httpGet"]["path"] for probe in probes(manifests.container(COLLECTOR)).values()} == {"/"}


def test_the_collector_listens_where_its_probes_and_services_look(manifests):
    base = manifests.config_map("sandgauge-collector")["otelcol.yaml"]
    defaults = {name: int(port) for name, port in re.findall(r"\$\{env:(\w+_PORT):-(\d+)\}", base)}
    assert ports(manifests.container(COLLECTOR)) == {
        "otlp-grpc": defaults["OTLP_GRPC_PORT"],
        "otlp-http": defaults["OTLP_HTTP_PORT"],
        "health": defaults["OTELCOL_HEALTH_PORT"],
        "metrics": defaults["OTELCOL_METRICS_PORT"],
    }
    environ = manifests.environment(COLLECTOR, SECRET)
    assert environ["OTELCOL_BIND"] == "0.0.0.0"
    assert not environ.keys() & defaults.keys()
    assert {probe["httpGet"]["port"] for probe in probes(manifests.container(COLLECTOR)).values()} == {"health"}


@pytest.mark.parametrize("variant", ["manifests", "shards"])
def test_what_waits_finds_room_on_the_volumes(variant, request):
    """The Collector's file is up to three times what waits in it, and has room for three pollers.

    The poller keeps up to three damaged stores.
    """
    manifests = request.getfixturevalue(variant)
    base = manifests.config_map("sandgauge-collector")["otelcol.yaml"]
    (feed,) = map(int, re.findall(r"POLLER_QUEUE_BYTES:-(\d+)", base))
    (backend,) = set(map(int, re.findall(r"BACKEND_QUEUE_BYTES:-(\d+)", base)))
    pollers = manifests.workload(POLLER)["spec"]["replicas"]
    assert storage(manifests, COLLECTOR) >= 3 * (max(pollers, 3) * feed + backend)
    assert storage(manifests, POLLER) >= 4 * Config().export.sending_queue.max_size


def storage(manifests, workload):
    """Return the bytes of a workload's volume."""
    (claim,) = manifests.workload(workload)["spec"]["volumeClaimTemplates"]
    return int(parse_quantity(claim["spec"]["resources"]["requests"]["storage"]).value)


def test_the_pollers_memory_has_room_for_what_its_senders_may_do_besides(manifests):
    """docs/configuration.md says of `ingest.max_request_body_size` how much that is."""
    resources = manifests.container(POLLER)["resources"]
    usual, most = (parse_quantity(resources[kind]["memory"]).value for kind in ("requests", "limits"))
    assert most >= usual + 4 * Config().ingest.max_request_body_size + 350 * 2**20
    assert "cpu" not in resources["limits"]  # a process that is halted within a second is late with all it reads


def test_a_third_poller_is_added_as_the_documentation_says(shards, tmp_path):
    third = code_block(document("kubernetes.md"), "yaml", "otlp_http/poller-2:")
    files = written(shards, tmp_path)
    second = yaml.safe_load(files[-1].read_text())["exporters"]["otlp_http/poller-1"]
    first_two = yaml.safe_load(shards.config_map("sandgauge-collector")["otelcol.shards.yaml"])
    whole = first_two["exporters"]["otlp_http/poller-1"] | second
    added = yaml.safe_load(third)["exporters"]["otlp_http/poller-2"]
    assert added.keys() == whole.keys()
    assert {key: value for key, value in added.items() if value != whole[key]}.keys() == {"endpoint", "sending_queue"}
    files[-1].write_text(third)
    assert validated(files, shards.environment(COLLECTOR, SECRET)) == (0, "", "")


def test_each_pod_of_the_shards_is_the_poller_of_one_exporter(shards):
    replicas = shards.workload(POLLER)["spec"]["replicas"]
    command, option = shards.container(POLLER)["args"]
    assert command == "run"
    (pod,) = [entry for entry in shards.container(POLLER)["env"] if entry["name"] == "POD_NAME"]
    assert pod["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    environ = shards.environment(COLLECTOR, SECRET)
    port = ports(shards.container(POLLER))["ingest"]
    for index in range(replicas):
        shard = parse_shard(option.removeprefix("--shard=").replace("$(POD_NAME)", f"{POLLER}-{index}"))
        assert (shard.index, shard.count) == (index, replicas)
        service = shards.workload(POLLER)["spec"]["serviceName"]
        assert environ[f"POLLER_{index}_OTLP_ENDPOINT"] == f"http://{POLLER}-{index}.{service}:{port}"
    assert f"POLLER_{replicas}_OTLP_ENDPOINT" not in environ


def test_each_poller_of_the_shards_gets_the_feed_with_the_token(shards, tmp_path):
    files = written(shards, tmp_path)
    with OtlpSink() as first, OtlpSink() as second:
        running = RunningCollector(
            real_collector(files),
            files,
            directory=tmp_path / "collector",
            destinations=Destinations(poller=NOBODY, traces=NOBODY, metrics=NOBODY),
            settings={
                "POLLER_TOKEN": shards.environment(COLLECTOR, SECRET)["POLLER_TOKEN"],
                "POLLER_0_OTLP_ENDPOINT": first.endpoint,
                "POLLER_1_OTLP_ENDPOINT": second.endpoint,
            },
        )
        with running:
            assert send(running, traces(from_resource(GYM, start_span("sandbox-1")))) == 200
            for sink in (first, second):
                sink.wait_for(lambda seen: len(seen.spans()) == 1)
                (request,) = sink.requests()
                assert request.headers["Authorization"] == f"Bearer {SECRET['poller-token']}"
