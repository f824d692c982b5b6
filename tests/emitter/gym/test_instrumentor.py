"""When Gym is instrumented, when it is not, and that nothing of it is left afterwards."""

import gc
import importlib
import importlib.metadata
import logging
import sys
import weakref

import pytest
from wrapt import FunctionWrapper

import sandgauge_emitter
from sandgauge_emitter.gym import GymSandboxInstrumentor
from sandgauge_emitter.settings import SETTINGS
from sandgauge_schemas import names
from support.plain_provider import Provider, Spec

API = "nemo_gym.sandbox.api"
LOGGER = "sandgauge_emitter"


def wrapped_places():
    """What may be wrapped, each as the very object that its owner holds."""
    api, compose, *exporting = map(
        importlib.import_module,
        (
            API,
            "nemo_gym.sandbox.adapters.docker_compose",
            "nemo_gym.sandbox",
            "nemo_gym.sandbox.providers",
            "nemo_gym.sandbox.providers.registry",
        ),
    )
    owners = [
        (api.AsyncSandbox, "start"),
        *[(module, "get_provider_class") for module in exporting],
        (compose.AsyncSandboxCompose, "start"),
        *[(Provider, name) for name in ("create", "exec", "close")],
    ]
    return {(owner.__name__, name): vars(owner)[name] for owner, name in owners}


def same(one, other):
    return all(one[key] is other[key] for key in one)


async def test_every_original_is_given_back(stand_in, switched_on, host):
    before = wrapped_places()
    GymSandboxInstrumentor().instrument()
    api = sys.modules[API]
    await api.AsyncSandbox(Provider(), Spec()).start()
    instrumented = wrapped_places()
    assert {type(place) for place in instrumented.values()} == {FunctionWrapper}
    GymSandboxInstrumentor().uninstrument()
    assert same(before, wrapped_places())
    assert not SETTINGS.enabled
    await api.AsyncSandbox(Provider(), Spec()).start()
    assert len(host.spans()) == 2
    GymSandboxInstrumentor().instrument()
    await api.AsyncSandbox(Provider(), Spec()).start()
    assert len(host.spans()) == 4


async def test_what_a_user_wrapped_once_more_stays_and_what_is_below_it_does_nothing(stand_in, switched_on, host):
    GymSandboxInstrumentor().instrument()
    api = importlib.import_module(API)
    ours, calls = vars(api.AsyncSandbox)["start"], []

    async def theirs(self, *arguments):
        calls.append(self)
        return await ours.__get__(self, type(self))(*arguments)

    api.AsyncSandbox.start = theirs
    await api.AsyncSandbox(Provider(), Spec()).start()
    assert len(host.spans()) == 2
    GymSandboxInstrumentor().uninstrument()
    assert vars(api.AsyncSandbox)["start"] is theirs
    assert isinstance(ours, FunctionWrapper)
    provider = Provider()
    sandbox = await api.AsyncSandbox(provider, Spec()).start()
    assert (sandbox.handle.sandbox_id, len(calls)) == ("fake-1", 2)
    assert len(host.spans()) == 2
    GymSandboxInstrumentor().instrument()
    await api.AsyncSandbox(Provider(), Spec()).start()
    assert (len(host.spans()), len(calls)) == (4, 3)
    GymSandboxInstrumentor().uninstrument()
    assert vars(api.AsyncSandbox)["start"] is theirs


async def test_a_providers_class_lives_no_longer_than_others_need_it(gym, host):
    class Passing(Provider):
        async def create(self, spec):
            return await super().create(spec)  # by which it leads back to its class

    await (await gym.api.AsyncSandbox(Passing(), Spec()).start()).stop()
    assert len(host.spans()) == 2
    life = weakref.ref(Passing)
    del Passing
    gc.collect()
    assert life() is None
    GymSandboxInstrumentor().uninstrument()


def test_gym_is_not_imported_for_it_but_wrapped_once_it_is(stand_in, switched_on):
    GymSandboxInstrumentor().instrument()
    assert not [name for name in sys.modules if name.startswith("nemo_gym")]
    assert isinstance(wrapped_places()["AsyncSandbox", "start"], FunctionWrapper)


def test_what_is_imported_after_the_end_is_left_alone(stand_in, switched_on):
    GymSandboxInstrumentor().instrument()
    GymSandboxInstrumentor().uninstrument()
    assert not isinstance(wrapped_places()["AsyncSandbox", "start"], FunctionWrapper)


def test_a_second_call_wraps_nothing_twice(stand_in, switched_on):
    GymSandboxInstrumentor().instrument()
    once = wrapped_places()
    GymSandboxInstrumentor().instrument()
    assert same(once, wrapped_places())


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, []),
        ({"NEMO_GYM_OTEL_ENABLED": "0", "NEMO_GYM_OTEL_SPAN_GROUPS": "sandbox"}, []),
        ({"NEMO_GYM_OTEL_ENABLED": "1"}, ["span group"]),
        ({"NEMO_GYM_OTEL_ENABLED": "1", "NEMO_GYM_OTEL_SPAN_GROUPS": "default,agent"}, ["span group"]),
        (
            {"NEMO_GYM_OTEL_ENABLED": "1", "NEMO_GYM_OTEL_SPAN_GROUPS": "sandbox", "NEMO_GYM_OTEL_TRACES_ENABLED": "0"},
            [],
        ),
        ({"NEMO_GYM_OTEL_ENABLED": "1", "NEMO_GYM_OTEL_SPAN_GROUPS": "sandbox", "SANDGAUGE_ENABLED": "0"}, []),
    ],
)
def test_what_is_not_asked_for_leaves_gym_as_it_is(stand_in, monkeypatch, caplog, environment, said):
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    GymSandboxInstrumentor().instrument()
    places = wrapped_places()
    assert not [place for place in places.values() if isinstance(place, FunctionWrapper)]
    assert len(caplog.records) == len(said)
    assert all(part in caplog.text for part in said)


def test_the_program_comes_before_gyms_switches(stand_in, switched_on):
    sandgauge_emitter.configure(enabled=False)
    GymSandboxInstrumentor().instrument()
    assert not isinstance(wrapped_places()["AsyncSandbox", "start"], FunctionWrapper)


async def test_what_gyms_configuration_says_counts(stand_in, monkeypatch, host):
    monkeypatch.setenv(
        "NEMO_GYM_CONFIG_DICT",
        "telemetry: {enabled: true, span_groups: 'default,sandbox', run_id: run-7,"
        " sandbox_resource_sample_interval_seconds: 10}\n",
    )
    GymSandboxInstrumentor().instrument()
    await importlib.import_module(API).AsyncSandbox(Provider(), Spec()).start()
    (start,) = host.spans(names.SPAN_GYM_SANDBOX_START)
    assert start.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S] == 10.0
    assert start.attributes[names.NEMO_RUN_ID] == "run-7"


def test_a_gym_that_records_its_sandboxes_itself_is_left_alone(stand_in, switched_on, monkeypatch, tmp_path, caplog):
    package = importlib.import_module("nemo_gym.sandbox")
    (tmp_path / "resource_telemetry.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    with caplog.at_level(logging.INFO, LOGGER):
        GymSandboxInstrumentor().instrument()
    (record,) = caplog.records
    assert "stands down" in record.getMessage()
    assert not isinstance(wrapped_places()["AsyncSandbox", "start"], FunctionWrapper)


def versions(monkeypatch, found):
    """Let the installed Gym have another version, or be none."""
    known = importlib.metadata.version

    def version(name):
        if name != "nemo-gym":
            return known(name)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr("opentelemetry.instrumentation.dependencies.version", version)


@pytest.mark.parametrize("found", ["0.4.0", "0.7.0", "0.8.0rc1", "0.8.0.dev3+g1234567"])
def test_releases_since_0_4_and_their_pre_releases_are_instrumented(stand_in, switched_on, monkeypatch, found):
    versions(monkeypatch, found)
    GymSandboxInstrumentor().instrument()
    assert isinstance(wrapped_places()["AsyncSandbox", "start"], FunctionWrapper)


@pytest.mark.parametrize("skip", [True, False])
def test_an_older_gym_is_left_alone_however_it_is_loaded(stand_in, switched_on, monkeypatch, caplog, skip):
    versions(monkeypatch, "0.3.9")
    with caplog.at_level(logging.INFO):
        GymSandboxInstrumentor().instrument(skip_dep_check=skip)
        places = wrapped_places()
    assert not isinstance(places["AsyncSandbox", "start"], FunctionWrapper)
    assert "0.3.9" in caplog.text


def test_without_gym_nothing_happens(switched_on, monkeypatch, caplog):
    versions(monkeypatch, None)
    GymSandboxInstrumentor().instrument(skip_dep_check=True)
    GymSandboxInstrumentor().uninstrument()
    assert not caplog.records


@pytest.mark.parametrize("name", ["AsyncSandbox", "get_provider_class", "AsyncSandboxCompose"])
def test_a_gym_of_another_shape_loses_no_import(stand_in, switched_on, monkeypatch, caplog, name):
    package = importlib.import_module("nemo_gym.sandbox")
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("nemo_gym.") and hasattr(module, name):
            monkeypatch.delattr(module, name)
    GymSandboxInstrumentor().instrument()
    assert sys.modules["nemo_gym.sandbox"] is package
    assert "instrumenting nemo_gym." in caplog.text


def test_the_entry_point_names_the_instrumentor():
    (entry,) = [
        one
        for one in importlib.metadata.entry_points(group="opentelemetry_instrumentor")
        if one.name == "nemo-gym-sandbox"
    ]
    assert entry.load() is GymSandboxInstrumentor
