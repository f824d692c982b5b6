"""The compose file, its variables and the poller's Dockerfile, read as data."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
ALERTS = (ROOT / "collector-config" / "backends" / "prometheus-rules" / "sandgauge.rules.yml").read_text()
ENV = dict(line.split("=", 1) for line in (ROOT / ".env").read_text().splitlines() if line and not line.startswith("#"))
DOCKERFILE = (ROOT / "poller" / "Dockerfile").read_text()
PUBLISHED = re.compile(r"127\.0\.0\.1:\$\{(?P<variable>\w+)\}:\d+")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_as_narrow_as_it_can_be(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
    assert service["restart"] == ("no" if name == "volume-owners" else "unless-stopped")
    assert (service.get("user") == "0:0") == (name == "volume-owners")


def test_every_port_is_published_on_loopback_and_changed_by_one_variable():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    matches = [PUBLISHED.fullmatch(port) for port in published]
    variables = [match["variable"] for match in matches if match]
    assert len(variables) == len(set(variables)) == len(published) == 6
    assert all(ENV[variable].isdigit() for variable in variables)


def test_ingest_is_not_published_and_that_it_asks_for_no_token_is_said_here():
    poller = SERVICES["poller"]
    assert not any("4319" in port for port in poller["ports"])
    assert poller["environment"]["SANDGAUGE_INSECURE_LISTEN"] == "true"


def test_without_its_hash_the_commented_line_publishes_ingest_on_loopback():
    shipped = (ROOT / "docker-compose.yml").read_text()
    (commented,) = [line for line in shipped.splitlines() if "SANDGAUGE_INGEST_PORT" in line]
    published = yaml.safe_load(shipped.replace(commented, commented.replace("#", "")))
    assert published["services"]["poller"]["ports"][-1] == "127.0.0.1:${SANDGAUGE_INGEST_PORT}:4319"


def test_what_an_alert_says_to_raise_is_a_variable_here():
    named = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", ALERTS))
    assert named
    assert all(SERVICES["collector"]["environment"][name] == f"${{{name}}}" for name in named)


def test_every_image_is_pinned_by_a_tag_of_the_variables():
    images = {service["image"] for service in SERVICES.values()} - {"sandgauge-poller:local"}
    for image in images:
        (variable,) = re.findall(r":\$\{(\w+)\}$", image)
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", ENV[variable])


def test_every_variable_of_the_compose_file_has_a_line():
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert used == set(ENV)


def test_every_receiver_that_another_container_reaches_listens_beyond_loopback():
    assert SERVICES["collector"]["environment"]["OTELCOL_BIND"] == "0.0.0.0"
    listeners = re.findall(r"endpoint: (\S+)", (ROOT / "collector-config" / "otelcol.yaml").read_text())
    assert any("OTELCOL_BIND" in listener for listener in listeners)
    config = yaml.safe_load((ROOT / "poller" / "sandgauge.compose.yaml").read_text())
    assert {config["ingest"]["endpoint"], config["status"]["endpoint"]} == {"0.0.0.0:4319", "0.0.0.0:8099"}


def test_every_mounted_file_of_this_checkout_is_there():
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), source


def test_the_dockerfile_needs_no_frontend_and_no_package_manager_of_the_system():
    assert "syntax=" not in DOCKERFILE
    assert "apt" not in DOCKERFILE


def test_the_image_makes_no_volume_by_itself():
    """It would be one for each container that keeps nothing too, and `docker compose down` leaves those behind."""
    assert not re.search(r"^VOLUME", DOCKERFILE, re.MULTILINE)


def test_the_dockerfile_installs_what_was_checked_for_a_user_without_rights():
    assert "USER 10002:10002" in DOCKERFILE
    assert "HEALTHCHECK" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
