"""What stock Gym does not do, but a provider or another release of Gym may."""

import asyncio
import gc
from collections import Counter

import pytest

import sandgauge_emitter
from sandgauge_schemas import names
from support.plain_provider import Handle, Provider, Spec

REQUEST, START, EXEC, STOP = (
    names.SPAN_GYM_SANDBOX_REQUEST,
    names.SPAN_GYM_SANDBOX_START,
    names.SPAN_GYM_SANDBOX_EXEC,
    names.SPAN_GYM_SANDBOX_STOP,
)
REQUEST_ID, SANDBOX_ID = names.NEMO_GYM_SANDBOX_REQUEST_ID, names.NEMO_GYM_SANDBOX_ID


def joined(host):
    """Sandbox ids of the starts by request id; every request has one start at most."""
    requests = [span.attributes[REQUEST_ID] for span in host.spans(REQUEST)]
    starts = {span.attributes[REQUEST_ID]: span.attributes.get(SANDBOX_ID) for span in host.spans(START)}
    assert len(set(requests)) == len(requests)
    assert len(starts) == len(host.spans(START))
    assert set(starts) <= set(requests)
    return [starts.get(request) for request in requests]


async def test_a_sandbox_has_one_request_and_one_start(gym, host):
    sandbox = gym.api.AsyncSandbox(Provider(), Spec({"cpu": 0.0, "memory_mib": 512}))
    assert await sandbox.start() is sandbox
    assert await sandbox.exec("true") == "fake-1: true"
    await sandbox.stop()
    assert joined(host) == ["fake-1"]
    (request,) = host.spans(REQUEST)
    assert request.attributes[names.NEMO_GYM_SANDBOX_REQUESTED_CPU] == 0.0
    assert request.attributes[names.NEMO_GYM_SANDBOX_REQUESTED_MEMORY_MIB] == 512
    assert request.attributes[names.NEMO_GYM_SANDBOX_PROVIDER] == "fake"


async def test_the_request_comes_before_the_provider_is_called(gym, host):
    seen = []

    class Looking(Provider):
        async def create(self, spec):
            seen.extend(span.name for span in host.spans())
            return await super().create(spec)

    await gym.api.AsyncSandbox(Looking(), Spec()).start()
    assert seen == [REQUEST]


async def test_a_provider_that_calls_the_class_it_inherits_from_is_asked_once(gym, host):
    class Base(Provider):
        async def create(self, spec):
            return await super().create(spec)

    class Derived(Base):
        async def create(self, spec):
            return await super().create(spec)

    await gym.api.AsyncSandbox(Base(), Spec()).start()
    await gym.api.AsyncSandbox(Derived(), Spec()).start()
    assert joined(host) == ["fake-1", "fake-1"]


async def test_a_provider_that_starts_a_sandbox_to_make_one_has_both_in_the_inventory(gym, host):
    class Outer(Provider):
        async def create(self, spec):
            inner = await gym.api.AsyncSandbox(Provider(), spec).start()
            return Handle(f"outer-of-{inner.handle.sandbox_id}")

    await gym.api.AsyncSandbox(Outer(), Spec()).start()
    assert Counter(joined(host)) == {"fake-1": 1, "outer-of-fake-1": 1}


async def test_a_second_try_within_one_start_is_no_second_request(gym, host):
    class Refusing(Provider):
        async def create(self, spec):
            self.created += 1
            if self.created == 1:
                raise TimeoutError
            return Handle("second")

    await gym.api.AsyncSandbox(Refusing(), Spec(), tries=2).start()
    (request,) = host.spans(REQUEST)
    failed, started = host.spans(START)
    assert failed.is_error
    assert SANDBOX_ID not in failed.attributes
    assert started.attributes[SANDBOX_ID] == "second"
    assert {span.attributes[REQUEST_ID] for span in (failed, started)} == {request.attributes[REQUEST_ID]}


async def test_a_task_that_outlives_the_start_makes_sandboxes_of_its_own(gym, host):
    later = asyncio.Event()
    tasks = []

    class Refilling(Provider):
        async def create(self, spec):
            handle = await super().create(spec)
            if not tasks:
                tasks.append(asyncio.create_task(self.refill(spec)))
            return handle

        async def refill(self, spec):
            await later.wait()
            await self.create(spec)

    await gym.api.AsyncSandbox(Refilling(), Spec()).start()
    later.set()
    await tasks[0]
    assert joined(host) == ["fake-1", "fake-2"]


async def test_a_provider_from_the_registry_is_known_before_any_sandbox_object(gym, host):
    gym.registry.CLASSES["fake"] = Provider
    handle = await gym.registry.create_provider("fake").create(spec=Spec({"cpu": 1}))
    assert handle == Handle("fake-1")
    assert joined(host) == ["fake-1"]


async def test_a_provider_object_with_a_create_of_its_own_is_said_to_be_missing(gym, host, caplog):
    async def create(spec):
        return Handle("own")

    provider = Provider()
    provider.create = create
    assert (await gym.api.AsyncSandbox(provider, Spec()).start()).handle == Handle("own")
    assert "could not be wrapped" in caplog.text
    assert not host.spans()


async def test_a_handle_that_nobody_can_watch_is_started_all_the_same(gym, host):
    class Slotted:
        __slots__ = ("sandbox_id",)

    class Terse(Provider):
        async def create(self, spec):
            handle = Slotted()
            handle.sandbox_id = "slotted"
            return handle

        async def close(self, handle):
            return "closed"

    sandbox = await gym.api.AsyncSandbox(Terse(), Spec()).start()
    await sandbox.stop()
    assert joined(host) == ["slotted"]


async def test_a_handle_without_an_id_means_that_nothing_is_known_of_a_sandbox(gym, host):
    class Silent(Provider):
        async def create(self, spec):
            return None

    assert (await gym.api.AsyncSandbox(Silent(), Spec()).start()).handle is None
    assert joined(host) == [None]
    assert not host.spans(START)[0].is_error


@pytest.mark.parametrize("error", [RuntimeError("pa55"), asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3)])
async def test_what_a_provider_raises_comes_out_as_it_was(gym, host, error):
    class Raising(Provider):
        async def create(self, spec):
            raise error

    with pytest.raises(type(error)) as caught:
        await gym.api.AsyncSandbox(Raising(), Spec()).start()
    assert caught.value is error
    assert joined(host) == [None]
    assert host.spans(START)[0].is_error == isinstance(error, Exception)
    assert "pa55" not in str(host.message())


async def test_a_start_that_gym_refuses_has_no_request(gym, host):
    with pytest.raises(ValueError, match="no spec"):
        await gym.api.AsyncSandbox(Provider()).start()
    assert not host.spans()


def test_a_start_that_is_thrown_away_disturbs_nothing(gym, host, caplog):
    class Hanging(Provider):
        async def create(self, spec):
            await asyncio.Event().wait()

    async def begin():
        start = gym.api.AsyncSandbox(Hanging(), Spec()).start()
        start.send(None)
        return start

    start = asyncio.run(begin())
    start.close()
    del start
    gc.collect()
    assert joined(host) == [None]
    assert not caplog.records


async def test_the_span_of_gym_itself_is_completed_and_none_is_added(gym, host):
    lens = host.provider.get_tracer("nemo.lens.helpers")
    with lens.start_as_current_span(START):
        sandbox = await gym.api.AsyncSandbox(Provider(), Spec()).start()
    with lens.start_as_current_span(EXEC):
        await sandbox.exec("true")
    with lens.start_as_current_span(STOP):
        await sandbox.stop()
    (request,) = host.spans(REQUEST)
    for name in (START, EXEC, STOP):
        (span,) = host.spans(name)
        assert span.scope == "nemo.lens.helpers"
        assert span.attributes[REQUEST_ID] == request.attributes[REQUEST_ID]
    assert SANDBOX_ID not in host.spans(START)[0].attributes, "that is for Gym to say"


async def test_other_spans_are_left_alone(gym, host):
    with host.tracer.start_as_current_span("rollout"):
        sandbox = await gym.api.AsyncSandbox(Provider(), Spec()).start()
        await sandbox.exec("true")
        await sandbox.stop()
    assert host.spans("rollout")[0].attributes == {}
    assert joined(host) == ["fake-1"]


async def test_all_services_are_asked_for_before_the_first_starts_and_each_once(gym, host):
    specs = {"web": Spec({"cpu": 1}), "db": Spec({"cpu": 2})}
    await gym.compose.AsyncSandboxCompose(Provider(), specs, helper=Spec()).start()
    assert [span.name for span in host.spans()] == [REQUEST] * 3 + [START] * 3
    assert joined(host) == ["fake-2", "fake-3", "fake-1"]
    services = [span.attributes.get(names.NEMO_GYM_SANDBOX_SERVICE_NAME) for span in host.spans(REQUEST)]
    assert services == ["web", "db", None]
    collections = [span.attributes.get(names.NEMO_GYM_SANDBOX_COLLECTION_ID) for span in host.spans(REQUEST)]
    assert collections == ["compose-1", "compose-1", None]


async def test_a_failed_service_leaves_the_later_ones_in_the_inventory(gym, host):
    class Full(Provider):
        async def create(self, spec):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await gym.compose.AsyncSandboxCompose(Full(), {"web": Spec(), "db": Spec()}).start()
    assert len(host.spans(REQUEST)) == 2
    (failed,) = host.spans(START)
    assert failed.attributes[REQUEST_ID] == host.spans(REQUEST)[0].attributes[REQUEST_ID]


async def test_a_gym_that_keeps_its_services_elsewhere_costs_the_collection_alone(gym, host):
    class Elsewhere(gym.compose.AsyncSandboxCompose):
        @property
        def services(self):
            raise AttributeError("services")

        @services.setter
        def services(self, _services):
            pass

    collection = Elsewhere(Provider(), {}, helper=Spec({"cpu": 1}))
    await collection.start()
    assert joined(host) == ["fake-1"]


@pytest.mark.parametrize("name", [None, "", "\ud800"])
async def test_a_provider_without_a_usable_name_is_named_by_its_class(gym, host, name):
    class Nameless(Provider):
        pass

    Nameless.name = name
    await gym.api.AsyncSandbox(Nameless(), Spec()).start()
    assert {span.attributes[names.NEMO_GYM_SANDBOX_PROVIDER] for span in host.spans()} == {"Nameless"}


async def test_the_program_may_switch_it_off_and_on_at_any_time(gym, host, caplog):
    for enabled, spans in ((False, 0), (True, 2), (False, 2)):
        sandgauge_emitter.configure(enabled=enabled)
        await gym.api.AsyncSandbox(Provider(), Spec()).start()
        assert len(host.spans()) == spans
    assert not caplog.records


@pytest.mark.parametrize("plans", [None, {"web": "a plan of another kind"}, ["web"]])
async def test_a_gym_that_plans_otherwise_costs_the_order_alone(gym, host, plans):
    class Later(gym.compose.AsyncSandboxCompose):
        @property
        def _plans(self):
            if plans is None:
                raise AttributeError("_plans")
            return plans

        @_plans.setter
        def _plans(self, _plans):
            pass

    await Later(Provider(), {"web": Spec({"cpu": 1}), "db": Spec({"cpu": 2})}).start()
    assert [span.name for span in host.spans()] == [REQUEST, START] * 2
    assert joined(host) == ["fake-1", "fake-2"]
    services = [span.attributes[names.NEMO_GYM_SANDBOX_SERVICE_NAME] for span in host.spans(REQUEST)]
    assert services == ["web", "db"]
