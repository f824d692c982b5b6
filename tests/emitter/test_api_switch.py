"""When the neutral API emits, and that it is silent else."""

import pytest

import sandgauge_emitter
from sandgauge_schemas import names

REQUEST = names.SPAN_GYM_SANDBOX_REQUEST


@pytest.mark.parametrize(
    ("variable", "said", "is_on"),
    [
        (None, None, False),
        ("", None, False),
        ("0", None, False),
        ("off", None, False),
        ("false", None, False),
        ("1", None, True),
        (" TRUE ", None, True),
        ("Yes", None, True),
        ("on", None, True),
        ("1", False, False),
        ("0", True, True),
        (None, True, True),
        (None, "yes", False),
    ],
)
def test_the_switch(host, monkeypatch, variable, said, is_on):
    if variable is not None:
        monkeypatch.setenv("SANDGAUGE_ENABLED", variable)
    sandgauge_emitter.configure(enabled=said)
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
    assert len(host.spans()) == (2 if is_on else 0)


def test_a_switch_that_is_neither_is_off_and_said_so(host, monkeypatch, caplog):
    monkeypatch.setenv("SANDGAUGE_ENABLED", "perhaps")
    sandgauge_emitter.record_request(provider="p")
    assert not host.spans()
    assert "SANDGAUGE_ENABLED" in caplog.text


def test_while_it_is_off_there_are_real_ids_and_nothing_else(host):
    first, second = (sandgauge_emitter.record_request(provider="p") for _ in range(2))
    assert len({first.request_id, second.request_id}) == 2
    sandgauge_emitter.configure(enabled=True)
    first.started("sbx-1")
    first.failed("timeout")
    assert not host.spans()


def test_off_is_off_for_open_requests_too(on):
    request = sandgauge_emitter.record_request(provider="p")
    sandgauge_emitter.configure(enabled=False)
    request.started("sbx-1")
    assert [span.name for span in on.spans()] == [REQUEST]
