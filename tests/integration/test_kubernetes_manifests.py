"""The Kubernetes manifests as Kustomize makes them: valid to the API, whole, and as narrow as they can be."""

import os
import re
import shutil
from collections import Counter

import pytest
import yaml
from kubernetes_validate import validate

from sandgauge_poller.reading.opensandbox.endpoints import EXECD_PORT
from support.documents import document
from support.kustomize import build
from support.manifests import KUBERNETES, RIGHTS, ROOT, Manifests, config_files, kustomization, ports, probes, selects

pytestmark = pytest.mark.integration

VERSIONS = ("1.28", "1.32", "1.37")
VARIANTS = ((), ("kafka",), ("shards",), ("usage",), ("shards", "usage"), ("kafka", "usage"))
SECRET = dict.fromkeys(re.findall(r"--from-literal=([a-z-]+)=", document("kubernetes.md")), "invented")


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda components: "-".join(("base", *components)))
def components(request):
    return request.param


@pytest.fixture(scope="module")
def manifests(components, tmp_path_factory):
    return Manifests.of(kustomization(tmp_path_factory.mktemp("user"), *components))


def test_every_component_is_looked_at():
    shipped = {path.parent.name for path in KUBERNETES.glob("*/kustomization.yaml")}
    assert {name for variant in VARIANTS for name in variant} == shipped


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_takes_every_object(manifests, version):
    for found in manifests.objects:
        validate(found, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_takes_the_rights(version):
    for found in RIGHTS:
        validate(found, version, strict=True)


class TestDocumentation:
    PAGE = document("kubernetes.md")
    BLOCKS = tuple(re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    CHANGES = tuple(block for block in BLOCKS if block.startswith(("patches:", "components:")))
    POLICIES = tuple(found for block in BLOCKS if block.startswith("apiVersion") for found in yaml.safe_load_all(block))

    def test_its_example_is_a_whole_deployment(self, tmp_path):
        (tmp_path / "kustomization.yaml").write_text(shipped(self.BLOCKS[0], tmp_path))
        (tmp_path / "sandgauge.yaml").write_text("deployments: []")
        made, base = Manifests.of(tmp_path), Manifests.of(ROOT)
        assert Counter(found["kind"] for found in made.objects) == Counter(found["kind"] for found in base.objects)
        assert made.config_map("sandgauge-poller") == {"sandgauge.yaml": "deployments: []"}
        assert made.config_map("sandgauge-backends") != base.config_map("sandgauge-backends")
        assert made.config_map("sandgauge-backends").keys() == base.config_map("sandgauge-backends").keys()
        assert made.container("sandgauge-poller")["image"] != base.container("sandgauge-poller")["image"]

    @pytest.mark.parametrize("change", CHANGES)
    def test_each_change_is_one(self, change, tmp_path):
        changed = build(kustomization(tmp_path, **yaml.safe_load(shipped(change, tmp_path))))
        assert changed != build(ROOT)
        for found in changed:
            validate(found, VERSIONS[-1], strict=True)

    @pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["metadata"]["name"])
    def test_each_policy_opens_ports_that_pods_have(self, policy):
        validate(policy, VERSIONS[-1], strict=True)
        base = Manifests.of(ROOT)
        labels = policy["spec"]["podSelector"]["matchLabels"]
        served = {
            port
            for name, container in base.containers()
            if selects(labels, base.pods()[name])
            for port in ports(container).values()
        }
        (rule,) = policy["spec"]["ingress"]
        assert {port["port"] for port in rule["ports"]} <= served

    def test_every_kind_of_block_is_among_these(self):
        collectors = [
            block for block in self.BLOCKS if block.startswith("exporters:")
        ]  # held to the real one elsewhere
        assert len(self.BLOCKS) == 1 + len(self.CHANGES) + len(collectors) + 1
        assert (len(self.CHANGES), len(collectors)) == (5, 1)
        assert len(self.POLICIES) == 2


def shipped(text, folder):
    """Return a text of the documentation with this checkout, as seen from the folder, in the place of the example's."""
    return text.replace("../checkout/collector-config", os.path.relpath(ROOT, folder.resolve()))


@pytest.mark.parametrize("component", ["kafka", "shards"])
def test_the_users_own_number_of_pollers_counts(component, tmp_path):
    more = kustomization(tmp_path, component, replicas=[{"name": "sandgauge-poller", "count": 5}])
    assert Manifests.of(more).workload("sandgauge-poller")["spec"]["replicas"] == 5


def test_the_folder_of_the_shards_may_be_copied(tmp_path):
    shutil.copytree(KUBERNETES / "shards", tmp_path / "shards")
    copied = build(kustomization(tmp_path, components=["shards"]))
    assert copied == build(kustomization(tmp_path / "elsewhere", "shards"))


def test_the_namespace_is_the_users_choice(manifests, tmp_path):
    assert not any("namespace" in found["metadata"] for found in manifests.objects)
    named = build(kustomization(tmp_path, namespace="elsewhere"))
    assert {found["metadata"]["namespace"] for found in named} == {"elsewhere"}


def test_the_collector_finds_every_shipped_file():
    files = {path.name for path in ROOT.glob("otelcol*.yaml")} | {"otelcol.kubernetes.yaml"}
    assert Manifests.of(ROOT).config_map("sandgauge-collector").keys() == files


def test_every_container_is_as_narrow_as_it_can_be(manifests):
    users = set()
    for name, container in manifests.containers():
        pod = manifests.pods()[name]["spec"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0
        assert pod["enableServiceLinks"] is False
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"}
        users.add(context["runAsUser"])
    assert len(users) == len(manifests.pods()) == 2


def test_only_usage_brings_a_service_account_and_it_is_the_one_that_has_the_rights(manifests, components):
    accounts = {name: pod["spec"].get("serviceAccountName") for name, pod in manifests.pods().items()}
    mounted = {name: pod["spec"]["automountServiceAccountToken"] for name, pod in manifests.pods().items()}
    with_usage = "usage" in components
    (granted,) = [found["metadata"]["name"] for found in RIGHTS if found["kind"] == "ServiceAccount"]
    assert accounts == {"sandgauge-collector": None, "sandgauge-poller": granted if with_usage else None}
    assert mounted == {"sandgauge-collector": False, "sandgauge-poller": with_usage}


def test_every_reference_leads_somewhere(manifests):
    services, maps = manifests.of_kind("Service"), manifests.of_kind("ConfigMap")
    asked = set()
    for name, container in manifests.containers():
        workload, pod = manifests.workload(name)["spec"], manifests.pods()[name]["spec"]
        claims = {claim["metadata"]["name"] for claim in workload["volumeClaimTemplates"]}
        volumes = {volume["name"] for volume in pod["volumes"]} | claims
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        assert {volume["configMap"]["name"] for volume in pod["volumes"]} <= maps.keys()
        assert {source["configMapRef"]["name"] for source in container.get("envFrom", [])} <= maps.keys()
        assert services[workload["serviceName"]]["spec"]["selector"] == workload["selector"]["matchLabels"]
        assert selects(workload["selector"]["matchLabels"], manifests.pods()[name])
        assert all(probe["httpGet"]["port"] in ports(container) for probe in probes(container).values())
        sources = [entry["valueFrom"] for entry in container["env"] if "valueFrom" in entry]
        references = [source["secretKeyRef"] for source in sources if source.keys() != {"fieldRef"}]
        assert {reference["name"] for reference in references} == {"sandgauge"}
        asked |= {reference["key"] for reference in references}
    assert asked == SECRET.keys()


def test_every_service_leads_to_one_workload_and_to_ports_of_it(manifests):
    for service in manifests.of_kind("Service").values():
        (name,) = [name for name, pod in manifests.pods().items() if selects(service["spec"]["selector"], pod)]
        for port in service["spec"]["ports"]:
            assert ports(manifests.container(name))[port["targetPort"]] == port["port"]


def test_both_find_their_configuration_where_they_look_for_it(manifests):
    files = config_files(manifests.container("sandgauge-collector"))
    assert len(files) == len(set(files))
    assert files[0].endswith("/otelcol.yaml")
    assert set(files) <= manifests.mounted_files("sandgauge-collector").keys()
    dockerfile = (ROOT.parent / "poller" / "Dockerfile").read_text()
    (place,) = re.findall(r"SANDGAUGE_CONFIG=(\S+)", dockerfile)
    assert place in manifests.mounted_files("sandgauge-poller")


def test_what_is_kept_is_kept_on_the_volume(manifests):
    poller = yaml.safe_load(manifests.config_map("sandgauge-poller")["sandgauge.yaml"])
    for name, folder in (
        ("sandgauge-poller", poller["state"]["directory"]),
        ("sandgauge-collector", "/var/lib/otelcol"),
    ):
        (claim,) = manifests.workload(name)["spec"]["volumeClaimTemplates"]
        mounts = manifests.container(name)["volumeMounts"]
        assert {mount["mountPath"] for mount in mounts if mount["name"] == claim["metadata"]["name"]} == {folder}
    assert "OTELCOL_STATE_DIR" not in manifests.environment("sandgauge-collector", SECRET)


def test_the_images_are_those_of_the_compose_stack(manifests):
    env = (ROOT.parent / ".env").read_text()
    (version,) = re.findall(r"^COLLECTOR_VERSION=(\S+)$", env, re.MULTILINE)
    assert manifests.container("sandgauge-collector")["image"] == f"otel/opentelemetry-collector-contrib:{version}"
    assert manifests.container("sandgauge-poller")["image"] == "sandgauge-poller:local"


def tcp(*numbers):
    """Return ports as a policy has them; without the protocol, which the API fills in, each apply would be a change."""
    return [{"port": number, "protocol": "TCP"} for number in numbers]


class TestNetworkPolicies:
    """What stands in them is where the product listens and what it calls."""

    @staticmethod
    def rules(manifests, direction, pod):
        return [
            rule
            for policy in manifests.of_kind("NetworkPolicy").values()
            if selects(policy["spec"]["podSelector"]["matchLabels"], manifests.pods()[pod])
            for rule in policy["spec"].get(direction, [])
        ]

    def test_each_selects_one_workload_and_shuts_what_it_speaks_of(self, manifests):
        for policy in manifests.of_kind("NetworkPolicy").values():
            spec = policy["spec"]
            assert sum(selects(spec["podSelector"]["matchLabels"], pod) for pod in manifests.pods().values()) == 1
            assert {kind.lower() for kind in spec["policyTypes"]} == spec.keys() & {"ingress", "egress"}

    def test_only_the_collector_reaches_the_ingest_port(self, manifests):
        (rule,) = self.rules(manifests, "ingress", "sandgauge-poller")
        assert rule["ports"] == tcp(ports(manifests.container("sandgauge-poller"))["ingest"])
        (source,) = rule["from"]
        assert source.keys() == {"podSelector"}  # in its own namespace
        reaching = [
            name for name, pod in manifests.pods().items() if selects(source["podSelector"]["matchLabels"], pod)
        ]
        assert reaching == ["sandgauge-collector"]

    def test_all_but_sandboxes_reach_the_collectors_receivers_and_no_other_port(self, manifests):
        (rule,) = self.rules(manifests, "ingress", "sandgauge-collector")
        served = ports(manifests.container("sandgauge-collector"))
        assert rule["ports"] == tcp(served["otlp-grpc"], served["otlp-http"])
        (source,) = rule["from"]
        (expression,) = source["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", ["opensandbox"])

    def test_the_poller_reaches_collector_names_control_plane_and_daemons(self, manifests, components):
        rules = self.rules(manifests, "egress", "sandgauge-poller")
        config = yaml.safe_load(manifests.config_map("sandgauge-poller")["sandgauge.yaml"])
        service, _, port = config["export"]["endpoint"].removeprefix("http://").partition(":")
        collector = manifests.of_kind("Service")[service]["spec"]["selector"]
        assert {"to": [{"podSelector": {"matchLabels": collector}}], "ports": tcp(int(port))} in rules
        assert {"ports": [{"port": 53, "protocol": "UDP"}, *tcp(53)]} in rules
        (deployment,) = config["deployments"]
        namespace = deployment["endpoint"].removeprefix("http://").split(".")[1]
        assert self.to_namespace(namespace, 80) in rules
        assert self.to_namespace("opensandbox", EXECD_PORT) in rules
        api = {"ports": tcp(443, 6443)}
        assert (api in rules) == ("usage" in components)
        assert (self.to_namespace("kafka", 9092) in rules) == ("kafka" in components)
        assert len(rules) == 4 + ("usage" in components) + ("kafka" in components)

    @staticmethod
    def to_namespace(name, port):
        return {
            "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}],
            "ports": tcp(port),
        }
