"""Secrets are masked, and nothing that is written in a file comes out in a message."""

import traceback
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.config import Config, ConfigErrors, load_config

SECRET = "hunter2hunter2"
PLACES = [
    "ingest: {{auth: {{bearer_token: {0}}}}}",
    "status: {{auth: {{bearer_token: {0}}}}}",
    "status: {{auth: {0}}}",
    "deployments: [{{name: a, endpoint: http://a, api_key: {0}}}]",
    "deployments: [{{name: a, endpoint: {0}, api_key: b}}]",
    "export: {{headers: {{authorization: {0}}}}}",
    "export: {{headers: {0}}}",
    "export: {{endpoint: {0}}}",
    "sampling: {{timeout: {0}}}",
]
SHAPES = [
    SECRET,
    f"'{SECRET}\t'",
    f'"{SECRET}\\n"',
    f'"\\u2603{SECRET}"',
    f"[{SECRET}]",
    f"{{{SECRET}}}",
    f"{{{SECRET}, {SECRET}}}",
    f"{{a: {SECRET}}}",
    f"{{bearer_token:{SECRET}}}",
    f"*{SECRET}",
    f"!{SECRET}!x y",
    f"'${{env:{SECRET}'",
    f"'${{{SECRET}}}'",
    f"http://{SECRET}:{SECRET}@host",
    f"'{SECRET}",
    f"${{env:A:-{SECRET}}}",
]


def everything_shown(path: Path, environ: dict[str, str]) -> str:
    try:
        config = load_config(path, environ)
    except ConfigErrors as error:
        return "".join(traceback.format_exception(error)) + repr(error.errors)
    return f"{config!r} {config} {config.model_dump()} {config.model_dump_json()} {config.warnings}"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_of_a_secret_is_shown(tmp_path: Path, place: str, shape: str) -> None:
    path = tmp_path / "sandgauge.yaml"
    path.write_text(place.format(shape))
    assert SECRET not in everything_shown(path, {})


def test_right_secrets_are_kept_and_masked(tmp_path: Path) -> None:
    path = tmp_path / "sandgauge.yaml"
    path.write_text(f"ingest: {{auth: {{bearer_token: {SECRET}}}}}\nexport: {{headers: {{a: {SECRET}}}}}\n")
    assert load_config(path, {}).export.headers["a"].get_secret_value() == SECRET
    assert "**********" in (shown := everything_shown(path, {}))
    assert SECRET not in shown


@given(st.text(), st.text(), st.sampled_from([place for place in PLACES if "endpoint: {0}" not in place]))
def test_what_comes_from_the_environment_is_never_shown(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str, place: str
) -> None:
    path = tmp_path_factory.mktemp("config") / "sandgauge.yaml"
    path.write_text(place.format("'${env:VALUE}'"))
    assert SECRET not in everything_shown(path, {"VALUE": before + SECRET + after})


def contents() -> st.SearchStrategy[bytes]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    keys = st.sampled_from(sorted(Config.model_fields)) | st.sampled_from(
        ["name", "endpoint", "auth", "tls", "timeout"]
    )
    data = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(), inner, max_size=5)
    )
    dumped = st.dictionaries(keys, data, max_size=5).map(lambda value: yaml.safe_dump(value, allow_unicode=True))
    return st.binary() | (st.text() | st.text(alphabet="a:-${}[]&*!|>'\"%@ \n\t#,?") | dumped).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )


@given(contents())
def test_any_content_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("config") / "sandgauge.yaml"
    path.write_bytes(content)
    try:
        config = load_config(path, {})
    except ConfigErrors as caught:
        errors = caught.errors
    else:
        assert isinstance(config, Config)
        return
    assert errors
    assert all(1 <= error.line <= len(content) + 1 for error in errors)
