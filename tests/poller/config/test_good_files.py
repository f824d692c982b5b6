"""What a right file means."""

from pathlib import Path

import pytest

from sandgauge_poller.config import (
    Config,
    ConfigErrors,
    Deployment,
    ListenAddress,
    ProxyUse,
    Usage,
    as_yaml,
    find_config,
    load_config,
    render,
    smallest_config,
)

FOLDER = Path(__file__).parents[2] / "fixtures" / "config"
TRAINING = Deployment(name="training", endpoint="http://127.0.0.1:8080")


def load_text(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    path = tmp_path / "sandgauge.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ or {})


def test_every_key_at_its_default_is_the_default() -> None:
    config = load_config(FOLDER / "good_every_key.yaml", {})
    assert config == Config(deployments=(TRAINING,))
    assert config.warnings == ()


@pytest.mark.parametrize("name", ["good_bom_crlf", "good_every_key"])
def test_the_plain_deployment(name: str) -> None:
    assert load_config(FOLDER / f"{name}.yaml", {}).deployments == (TRAINING,)


def test_empty_sections_are_defaults() -> None:
    assert load_config(FOLDER / "good_empty_sections.yaml", {}) == Config()


def test_switched_off_deployment_is_left_out_with_its_other_references() -> None:
    config = load_config(FOLDER / "good_switched_off.yaml", {})
    assert [deployment.name for deployment in config.deployments] == ["second"]
    assert [(warning.line, warning.key) for warning in config.warnings] == [(3, "deployments[0].endpoint")]


def test_switched_off_deployment_comes_back_with_its_variable() -> None:
    environ = {"FIRST_ENDPOINT": "http://127.0.0.1:8081", "FIRST_KEY": "k"}
    config = load_config(FOLDER / "good_switched_off.yaml", environ)
    assert [deployment.name for deployment in config.deployments] == ["first", "second"]
    assert config.warnings == ()


def test_open_servers_and_headers() -> None:
    config = load_config(FOLDER / "good_open_with_token.yaml", {"INGEST_TOKEN": "t"})
    assert config.ingest.endpoint == ListenAddress("0.0.0.0", 4319)
    assert config.ingest.auth.bearer_token.get_secret_value() == "t"
    assert {name: value.get_secret_value() for name, value in config.export.headers.items()} == {
        "authorization": "Basic dXNlcjpwYXNz==",
        "x-tenant": "two words = one",
    }


def test_deployment_values(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """\
deployments:
  - name: training
    endpoint: HTTPS://OSB.example.com:443/base/v1/
    scopes: [http://osb:80/v1]
    api_key: 0123
    use_server_proxy: False
    allowed_endpoint_hosts: [.Pods.example.com, 10.0.0.0/8, 10.1.2.3, "fd00::/8"]
    max_requests_per_second: 0.5
""",
    )
    (deployment,) = config.deployments
    assert deployment.endpoint == "https://osb.example.com/base"
    assert deployment.identities == {"https://osb.example.com/base", "http://osb"}
    assert deployment.api_key.get_secret_value() == "0123"
    assert deployment.use_server_proxy is ProxyUse.NEVER
    assert deployment.allowed_endpoint_hosts == ("pods.example.com", "10.0.0.0/8", "10.1.2.3/32", "fd00::/8")
    assert deployment.max_requests_per_second == 0.5


def test_zero_interval_needs_no_minimum(tmp_path: Path) -> None:
    assert load_text(tmp_path, "sampling: {collection_interval: 0}").sampling.collection_interval == 0


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://c:4318", "http://c:4318"),
        ("http://c:4318/", "http://c:4318"),
        ("http://c:4318/base/", "http://c:4318/base"),
        ("https://c", "https://c"),
    ],
)
def test_export_endpoint_is_a_base(tmp_path: Path, written: str, meant: str) -> None:
    assert load_text(tmp_path, f"export: {{endpoint: {written}}}").export.endpoint == meant


@pytest.mark.parametrize(
    ("text", "line", "key", "reason"),
    [
        ("export:\n  endpoint: http://c:4317\n", 2, "export.endpoint", "gRPC"),
        ("export:\n  traces: false\n", 2, "export.traces", "nothing is read"),
        ("sampling:\n  timeout: 1s\n", 2, "sampling.timeout", "every reading will fail"),
        ("export:\n  tls: {insecure_skip_verify: true}\n", 2, "export.tls.insecure_skip_verify", "pose"),
        (
            "deployments:\n  - name: a\n    endpoint: https://a\n    tls:\n      insecure_skip_verify: true\n",
            5,
            "deployments[0].tls.insecure_skip_verify",
            "pose",
        ),
        (
            "usage:\n  - kind: docker\n    endpoint: https://a:2376\n    tls: {insecure_skip_verify: true}\n",
            4,
            "usage[0].tls.insecure_skip_verify",
            "pose",
        ),
        (
            "deployments:\n  - name: a\n    endpoint: http://a\n    execd: false\n",
            4,
            "deployments[0].execd",
            "no usage source serves",
        ),
    ],
)
def test_warnings(tmp_path: Path, text: str, line: int, key: str, reason: str) -> None:
    (warning,) = load_text(tmp_path, text).warnings
    assert (warning.line, warning.key) == (line, key)
    assert reason in warning.reason
    assert render([warning]).startswith(f"{tmp_path / 'sandgauge.yaml'}:{line}: {key}: ")


def test_smallest_config_works(tmp_path: Path) -> None:
    assert load_text(tmp_path, smallest_config()).deployments == (TRAINING,)


def test_find_config_order(tmp_path: Path) -> None:
    in_folder = tmp_path / "sandgauge.yaml"
    in_folder.write_text("")
    named = {"SANDGAUGE_CONFIG": "named.yaml"}
    assert find_config(Path("given.yaml"), named, tmp_path) == Path("given.yaml")
    assert find_config(None, named, tmp_path) == Path("named.yaml")
    assert find_config(None, {"SANDGAUGE_CONFIG": ""}, tmp_path) == in_folder


def test_no_config_shows_the_smallest(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        find_config(None, {}, tmp_path)
    assert smallest_config() in str(caught.value)


def test_configuration_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.sampling.timeout = 1.0


def test_a_docker_deployment_needs_its_endpoint_alone(tmp_path: Path) -> None:
    text = "deployments: [{name: machine, provider: docker, endpoint: unix:///var/run/docker.sock}]\n"
    config = load_text(tmp_path, text)
    (deployment,) = config.deployments
    assert deployment.identities == {"unix:///var/run/docker.sock"}
    assert deployment.execd is False
    assert config.warnings == ()
    assert load_text(tmp_path, as_yaml(config)) == config


MACHINE = Deployment(name="machine", provider="docker", endpoint="unix:///var/run/docker.sock")
REMOTE = Deployment(name="remote", provider="docker", endpoint="https://docker.example:2376")


def test_a_short_timeout_is_no_trouble_where_no_daemon_inside_is_read(tmp_path: Path) -> None:
    text = "deployments: [{name: machine, provider: docker, endpoint: unix:///a}]\nsampling: {timeout: 500ms}\n"
    assert load_text(tmp_path, text).warnings == ()


def test_of_several_docker_daemons_spans_do_not_say_which(tmp_path: Path) -> None:
    text = """\
deployments:
  - {name: machine, provider: docker, endpoint: unix:///var/run/docker.sock}
  - {name: remote, provider: docker, endpoint: https://docker.example:2376}
"""
    assert [(warning.line, warning.key) for warning in load_text(tmp_path, text).warnings] == [
        (3, "deployments[1].provider")
    ]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ((), [("unix:///var/run/docker.sock", ("machine",)), ("https://docker.example:2376", ("remote",))]),
        # The daemon behind the socket serves whoever is on it; the other one still sees its own.
        (
            (Usage(kind="docker"),),
            [("unix:///var/run/docker.sock", ("training", "machine")), ("https://docker.example:2376", ("remote",))],
        ),
        (
            (Usage(kind="docker", endpoint="http://proxy:2375", deployments=("machine", "remote")),),
            [("http://proxy:2375", ("machine", "remote"))],
        ),
        (
            (Usage(kind="docker", endpoint="http://osb:2375"),),
            [
                ("http://osb:2375", ("training",)),
                ("unix:///var/run/docker.sock", ("machine",)),
                ("https://docker.example:2376", ("remote",)),
            ],
        ),
    ],
)
def test_docker_deployments_bring_their_usage_along(
    sources: tuple[Usage, ...], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    config = Config(deployments=(TRAINING, MACHINE, REMOTE), usage=sources, sampling={"collection_interval": "30s"})
    found = config.usage_sources
    assert [(source.endpoint, source.deployments) for source in found] == expected
    assert all(
        source.interval == 30 for source in found if source not in sources and source.deployments[0] != "training"
    )


def test_a_source_without_anybody_to_ask_for_is_left_out() -> None:
    config = Config(deployments=(MACHINE,), usage=(Usage(kind="docker", endpoint="http://elsewhere:2375"),))
    assert [source.endpoint for source in config.usage_sources] == [MACHINE.endpoint]


def test_without_docker_deployments_sources_are_those_of_the_file() -> None:
    source = Usage(kind="docker")
    assert Config(deployments=(TRAINING,), usage=(source,)).usage_sources == (source,)
