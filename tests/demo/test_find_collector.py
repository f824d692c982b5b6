import hashlib
from pathlib import Path

import pytest

from sandgauge_demo.collector import (
    BASE,
    JOINED,
    CollectorError,
    Destinations,
    RunningCollector,
    find_collector,
    shipped_config,
    source_checkout,
)

ACCEPTS = "exit 0"
REFUSES = 'echo "Error: unknown type: filter" >&2; exit 1'
NOWHERE = Destinations(poller="http://127.0.0.1:9", traces="http://127.0.0.1:9", metrics="http://127.0.0.1:9")


def stand_in(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout" / "collector-config"
    folder.mkdir(parents=True)
    for name in (BASE, JOINED, "builder.yaml"):
        (folder / name).write_text(f"# {name}\n")
    return folder.parent


@pytest.fixture
def config_files(checkout):
    return shipped_config(checkout, BASE, JOINED)


def built(checkout, body, *, cache="_build"):
    key = hashlib.sha256((checkout / "collector-config" / "builder.yaml").read_bytes()).hexdigest()[:16]
    return stand_in(checkout / cache / f"collector-{key}-go1.99-linux-amd64" / "otelcol-sandgauge", body)


def test_named_collector_decides_alone(tmp_path, checkout, config_files):
    named = stand_in(tmp_path / "named", ACCEPTS)
    stand_in(tmp_path / "bin" / "otelcol-sandgauge", ACCEPTS)
    environ = {"SANDGAUGE_OTELCOL": str(named), "PATH": str(tmp_path / "bin")}
    assert find_collector(environ, checkout, config_files) == named


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.write_text("no program"), "Permission denied"),
        (lambda path: stand_in(path, REFUSES), "unknown type: filter"),
    ],
    ids=["missing", "not executable", "refuses the configuration"],
)
def test_unusable_named_collector_is_an_error_and_never_replaced(tmp_path, checkout, config_files, make, reason):
    make(tmp_path / "named")
    built(checkout, ACCEPTS)
    with pytest.raises(CollectorError, match=reason) as error:
        find_collector({"SANDGAUGE_OTELCOL": str(tmp_path / "named")}, checkout, config_files)
    assert "SANDGAUGE_OTELCOL" in str(error.value)
    assert "builder.yaml" in str(error.value)


def test_first_on_path_that_accepts_the_configuration(tmp_path, checkout, config_files):
    stand_in(tmp_path / "bin" / "otelcol-sandgauge", REFUSES)
    contrib = stand_in(tmp_path / "bin" / "otelcol-contrib", ACCEPTS)
    stand_in(tmp_path / "bin" / "otelcol", ACCEPTS)
    built(checkout, ACCEPTS)
    assert find_collector({"PATH": str(tmp_path / "bin")}, checkout, config_files) == contrib


def test_validate_gets_every_configuration_file_in_order(tmp_path, checkout, config_files):
    stand_in(tmp_path / "bin" / "otelcol", f'echo "$@" > {tmp_path}/arguments')
    find_collector({"PATH": str(tmp_path / "bin")}, checkout, config_files)
    base, joined = config_files
    assert (tmp_path / "arguments").read_text().split() == ["validate", f"--config={base}", f"--config={joined}"]


def test_built_collector_is_found_without_go(checkout, config_files):
    binary = built(checkout, ACCEPTS)
    assert find_collector({}, checkout, config_files) == binary


def test_cache_elsewhere(checkout, config_files):
    binary = built(checkout, ACCEPTS, cache="elsewhere")
    assert find_collector({"SANDGAUGE_CACHE": str(checkout / "elsewhere")}, checkout, config_files) == binary
    assert find_collector({}, checkout, config_files) is None


def test_collector_built_from_another_manifest_is_not_taken(checkout, config_files):
    built(checkout, ACCEPTS)
    (checkout / "collector-config" / "builder.yaml").write_text("# changed\n")
    assert find_collector({}, checkout, config_files) is None


def test_none_when_nothing_accepts_the_configuration(tmp_path, checkout, config_files):
    stand_in(tmp_path / "bin" / "otelcol", REFUSES)
    built(checkout, REFUSES)
    assert find_collector({"PATH": str(tmp_path / "bin")}, checkout, config_files) is None


def test_missing_configuration_is_named(tmp_path):
    with pytest.raises(CollectorError, match=r"collector-config/otelcol\.yaml is missing"):
        shipped_config(tmp_path, BASE)


def test_this_checkout_has_the_configuration():
    root = source_checkout()
    assert root is not None
    assert all(path.is_file() for path in shipped_config(root, BASE, JOINED))


def test_collector_that_ends_while_starting_shows_the_end_of_its_log(tmp_path, config_files):
    binary = stand_in(tmp_path / "otelcol", 'echo "Error: bind: address already in use"; exit 7')
    collector = RunningCollector(binary, config_files, directory=tmp_path / "state", destinations=NOWHERE)
    with pytest.raises(CollectorError, match=r"ended with 7 while starting(?s:.*)address already in use"):
        collector.start()


def test_nothing_of_the_environment_but_the_settings_reaches_the_collector(tmp_path, config_files, monkeypatch):
    monkeypatch.setenv("POLLER_QUEUE_BYTES", "1")
    binary = stand_in(tmp_path / "otelcol", f"env > {tmp_path}/environment; exit 1")
    collector = RunningCollector(
        binary, config_files, directory=tmp_path / "state", destinations=NOWHERE, settings={"JOIN_WINDOW": "1s"}
    )
    with pytest.raises(CollectorError):
        collector.start()
    environment = dict(line.split("=", 1) for line in Path(tmp_path / "environment").read_text().splitlines())
    assert environment["JOIN_WINDOW"] == "1s"
    assert environment["TRACES_OTLP_ENDPOINT"] == NOWHERE.traces
    assert "POLLER_QUEUE_BYTES" not in environment
