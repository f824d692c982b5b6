"""Each bad file is named after its fault and yields just that one."""

import json
from pathlib import Path

import pytest

from sandgauge_poller.config import ConfigErrors, load_config, render

FOLDER = Path(__file__).parents[2] / "fixtures" / "config"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
BAD_FILES = sorted(path.stem for path in FOLDER.glob("bad_*.yaml"))


def test_every_bad_file_has_its_expectation() -> None:
    assert sorted(EXPECTED) == BAD_FILES


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    with pytest.raises(ConfigErrors) as caught:
        load_config(path, {})
    (error,) = caught.value.errors
    expected = EXPECTED[name]
    assert (error.file, error.line, error.key) == (str(path), expected["line"], expected["key"])
    assert expected["reason"] in error.reason
    assert expected["cure"] in error.cure
    place = f"{path}:{error.line}: {error.key}: " if error.key else f"{path}:{error.line}: "
    assert render(caught.value.errors) == str(caught.value) == f"{place}{error.reason}; {error.cure}"
    assert "hunter2" not in str(caught.value)


def errors_of(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> list[tuple[int, str]]:
    path = tmp_path / "sandgauge.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigErrors) as caught:
        load_config(path, environ or {})
    return [(error.line, error.key) for error in caught.value.errors]


def test_all_faults_of_a_file_come_at_once_in_its_order(tmp_path: Path) -> None:
    text = """\
sampling:
  timeout: 2
  timout: 2s
deployments:
  - name: a
    endpoint: http://127.0.0.1:8080
    api_key: ${env:UNSET}
    execd: maybe
  - name: a
    endpoint: http://127.0.0.1:8080/v1
    scopes: [http://b:80, nonsense]
ingest:
  endpoint: 0.0.0.0:4319
  max_request_body_size: 1
tracking:
  max_sandboxes: many
  max_sandboxes: 0
"""
    assert errors_of(tmp_path, text) == [
        (2, "sampling.timeout"),
        (3, "sampling.timout"),
        (7, "deployments[0].api_key"),
        (8, "deployments[0].execd"),
        (9, "deployments[1].name"),
        (10, "deployments[1].endpoint"),
        (11, "deployments[1].scopes[1]"),
        (13, "ingest.endpoint"),
        (14, "ingest.max_request_body_size"),
        (17, "tracking.max_sandboxes"),
    ]


def test_an_unresolved_token_is_not_also_a_missing_one(tmp_path: Path) -> None:
    text = "ingest:\n  endpoint: 0.0.0.0:4319\n  auth:\n    bearer_token: ${env:UNSET}\n"
    assert errors_of(tmp_path, text) == [(4, "ingest.auth.bearer_token")]


def test_line_numbers_hold_with_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    assert errors_of(tmp_path, "\ufeffsampling:\r\n  timeout: 2s\r\n  max_clock_skew: 60\r\n") == [
        (3, "sampling.max_clock_skew")
    ]


def test_tls_files_come_as_a_pair_and_exist(tmp_path: Path) -> None:
    there = tmp_path / "cert.pem"
    there.write_text("x")
    alone = f"ingest:\n  tls:\n    cert_file: {there}\n"
    assert errors_of(tmp_path, alone) == [(2, "ingest.tls.key_file")]
    assert errors_of(tmp_path, f"{alone}    key_file: {tmp_path}\n") == [(4, "ingest.tls.key_file")]


def test_tls_files_hold_what_they_should(tmp_path: Path) -> None:
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("x")
    pair = f"ingest:\n  tls:\n    cert_file: {no_pem}\n    key_file: {no_pem}\n"
    assert errors_of(tmp_path, pair) == [(4, "ingest.tls.key_file")]
    export = f"export:\n  tls:\n    ca_file: {no_pem}\n"
    assert errors_of(tmp_path, export) == [(3, "export.tls.ca_file")]
    deployment = f"deployments:\n  - name: a\n    endpoint: https://a\n    tls:\n      ca_file: {no_pem}\n"
    assert errors_of(tmp_path, deployment) == [(5, "deployments[0].tls.ca_file")]


@pytest.mark.parametrize(
    "endpoint",
    [
        *("http://c:4318/v1/traces", "http://c:4318/v1/traces/", "http://c:4318/v1/metrics", "http://c/base/v1/traces"),
        *("c:4317", "c:4318", "c", "localhost", "grpc://c:4317", "http//c:4318", "http://c:4318?key=x"),
    ],
)
def test_an_export_endpoint_that_is_no_base_url_is_a_fault_of_its_key(tmp_path: Path, endpoint: str) -> None:
    assert errors_of(tmp_path, f"export:\n  endpoint: '{endpoint}'\n") == [(2, "export.endpoint")]


@pytest.mark.parametrize("scalar", ['"\\uD800"', "[a]", "{a: b}", "", '"a\\0b"', '"\\U0010FFFF"'])
def test_odd_values_are_faults_of_their_key(tmp_path: Path, scalar: str) -> None:
    assert errors_of(tmp_path, f"logs:\n  level: {scalar}\n") == [(2, "logs.level")]
    assert errors_of(tmp_path, f"export:\n  endpoint: {scalar}\n") == [(2, "export.endpoint")]
    assert errors_of(tmp_path, f"tracking:\n  max_sandboxes: {scalar}\n") == [(2, "tracking.max_sandboxes")]
    assert errors_of(tmp_path, f"status:\n  endpoint: {scalar}\n") == [(2, "status.endpoint")]


@pytest.mark.parametrize("text", ['a: "\\UFFFFFFFF"\n', "%YAML 1." + "1" * 5000 + "\n---\na: 1\n", "a: " + "[" * 5000])
def test_what_breaks_the_yaml_library_is_one_fault(tmp_path: Path, text: str) -> None:
    assert errors_of(tmp_path, text) == [(1, "")]


def test_file_that_is_not_there_not_readable_or_too_large(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (256 * 1024 + 1))
    for path, reason in [
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "cannot be read"),
        (Path("a\0b"), "cannot be read"),
        (large, "larger than 256 KiB"),
    ]:
        with pytest.raises(ConfigErrors, match=reason) as caught:
            load_config(path, {})
        assert caught.value.errors[0].line == 1
