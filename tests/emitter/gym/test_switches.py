import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_emitter.gym import switches

ENABLED, GROUPS = "NEMO_GYM_OTEL_ENABLED", "NEMO_GYM_OTEL_SPAN_GROUPS"


def configured(**telemetry):
    """The environment of a server that Gym started with a telemetry block."""
    return {"NEMO_GYM_CONFIG_DICT": yaml.safe_dump({"policy_model": {"port": 1}, "telemetry": telemetry})}


@pytest.mark.parametrize(
    ("environment", "enabled", "has_group"),
    [
        ({}, False, False),
        ({ENABLED: "1"}, True, False),
        ({ENABLED: " TRUE "}, True, False),
        ({ENABLED: "on", GROUPS: "default,sandbox"}, True, True),
        ({ENABLED: "yes", GROUPS: "ALL"}, True, True),
        ({ENABLED: "1", GROUPS: "Default , Sandbox"}, True, True),
        ({ENABLED: "1", GROUPS: "sandboxes,per_rollout"}, True, False),
        ({ENABLED: "maybe", GROUPS: "all"}, False, True),
        ({ENABLED: "1", GROUPS: "all", "NEMO_GYM_OTEL_TRACES_ENABLED": "false"}, False, True),
        ({"NEMO_LENS_ENABLED": "1", "NEMO_LENS_SPAN_GROUPS": "sandbox"}, True, True),
        ({"NEMO_LENS_ENABLED": "1", ENABLED: "0"}, False, False),
        ({"NEMO_LENS_ENABLED": "1", ENABLED: " "}, True, False),
        (configured(enabled=True, span_groups="default,sandbox"), True, True),
        (configured(enabled=True, span_groups="default,sandbox") | {ENABLED: "0"}, False, True),
        (configured(enabled=True, span_groups="default,sandbox") | {GROUPS: "default"}, True, False),
        (configured(enabled=True, span_groups="default") | {GROUPS: "all"}, True, True),
        (configured(enabled=True, span_groups="all", traces_enabled=False), False, True),
        (configured(enabled=False, span_groups="sandbox") | {"NEMO_LENS_ENABLED": "1"}, True, True),
        *[(configured(enabled=on, span_groups="sandbox"), True, True) for on in ("true", "True", "yes", "on", "T", 1)],
        *[
            (configured(enabled=off, span_groups="sandbox"), False, True)
            for off in ("false", "NO", "off", "0", 0, None)
        ],
        *[(configured(enabled=True, span_groups="all", traces_enabled=off), False, True) for off in ("n", "False", 0)],
        (configured(enabled="yes", span_groups="all", traces_enabled="Y"), True, True),
        (configured(enabled="${oc.env:TELEMETRY}", span_groups="all"), False, True),
        (configured(enabled=True, span_groups=["sandbox"]), True, False),
    ],
)
def test_the_environment_comes_before_the_configuration(environment, enabled, has_group):
    read = switches.read(environment)
    assert (read.enabled, read.has_group, read.notes) == (enabled, has_group, ())


@pytest.mark.parametrize("key", ["enabled", "traces_enabled"])
@pytest.mark.parametrize("written", ["pa55", "", " true", 2, 0.5, ["true"], {"true": True}])
def test_a_switch_that_gym_would_refuse_is_off_and_one_note_names_it(key, written):
    read = switches.read(configured(**{"enabled": True, "span_groups": "sandbox", key: written}))
    assert (read.enabled, read.has_group) == (False, True)
    (note,) = read.notes
    assert f"telemetry.{key}" in note
    assert "write true" in note
    assert "pa55" not in note


@pytest.mark.parametrize(
    ("written", "seconds", "noted"),
    [(10, 10.0, False), (0, 0.0, False), (2.5, 2.5, False), (None, None, False)]
    + [(wrong, None, True) for wrong in (-1, "10s", True, [10], float("nan"), float("inf"))],
)
def test_the_interval_is_a_number_of_seconds(written, seconds, noted):
    read = switches.read(configured(sandbox_resource_sample_interval_seconds=written))
    assert read.sample_interval_s == seconds
    assert bool(read.notes) == noted
    assert all("telemetry.sandbox_resource_sample_interval_seconds" in note for note in read.notes)


def test_the_block_stands_for_the_variables_that_gym_would_set():
    block = {
        "enabled": True,
        "traces_enabled": True,
        "span_groups": "all",
        "exporter": "console",
        "run_id": 7,
        "service_name": "trainer",
        "otlp_endpoint": "http://c:4318",
        "otlp_protocol": "http/protobuf",
        "otlp_headers": "x-key=${oc.env:KEY}",
        "memory_profiling": {"enabled": True},
    }
    assert switches.read(configured(**block)).defaults == {
        "NEMO_GYM_OTEL_ENABLED": "1",
        "NEMO_GYM_OTEL_TRACES_ENABLED": "1",
        "NEMO_GYM_OTEL_SPAN_GROUPS": "all",
        "NEMO_GYM_OTEL_EXPORTER": "console",
        "NEMO_GYM_OTEL_RUN_ID": "7",
        "OTEL_SERVICE_NAME": "trainer",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "SANDGAUGE_ENABLED": "1",
    }


def test_what_only_nemo_lens_is_told_counts_too():
    defaults = switches.read({"NEMO_LENS_RUN_ID": "run-1", "NEMO_LENS_EXPORTER": "console"}).defaults
    assert (defaults["NEMO_GYM_OTEL_RUN_ID"], defaults["NEMO_GYM_OTEL_EXPORTER"]) == ("run-1", "console")


@pytest.mark.parametrize("text", ["telemetry: [", "telemetry: !!python/object:os.system {}", "a: b: telemetry"])
def test_a_configuration_that_cannot_be_read_is_one_note_that_does_not_quote_it(text):
    read = switches.read({"NEMO_GYM_CONFIG_DICT": text, ENABLED: "1", GROUPS: "sandbox"})
    assert (read.enabled, read.has_group, read.sample_interval_s) == (True, True, None)
    (note,) = read.notes
    assert "NEMO_GYM_CONFIG_DICT" in note
    assert "system" not in note


@pytest.mark.parametrize(
    "text", ["", "telemetry", "- telemetry", "telemetry:", "telemetry: on", "other: {telemetry: 1}"]
)
def test_a_configuration_without_the_block_says_nothing(text):
    read = switches.read({"NEMO_GYM_CONFIG_DICT": text})
    assert (read.enabled, read.notes) == (False, ())


def test_without_pyyaml_there_is_one_note(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    read = switches.read(configured(enabled=True) | {ENABLED: "1"})
    assert read.enabled
    assert len(read.notes) == 1


@given(
    st.dictionaries(
        st.sampled_from(["enabled", "span_groups", "exporter", "run_id", "sandbox_resource_sample_interval_seconds"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())),
    )
)
def test_any_block_gives_switches(block):
    read = switches.read(configured(**block))
    assert read.sample_interval_s is None or read.sample_interval_s >= 0
    assert all(isinstance(text, str) for text in read.defaults.values())
