from types import SimpleNamespace

import pytest

from sandgauge_emitter.gym import inventory
from sandgauge_schemas import names

PREFIX = names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED


@pytest.fixture
def complaints(monkeypatch):
    noted = []
    monkeypatch.setattr(inventory, "complain", noted.append)
    return noted


@pytest.mark.parametrize(
    ("declared", "expected", "complained"),
    [
        ({}, {}, 0),
        ({"cpu": 1, "memory_mib": 512, "disk_gib": 20}, {"cpu": 1.0, "memory_mib": 512, "disk_gib": 20}, 0),
        ({"cpu": 1, "memory_mib": 512.0, "gpu_type": "H100"}, {"cpu": 1.0, "memory_mib": 512, "gpu_type": "H100"}, 0),
        ({"cpu": True, "memory_mib": 512.5, "gpu": 2}, {"gpu": 2}, 2),
        ({"cpu": True, "memory_mib": True, "gpu": True}, {}, 3),
        ({"cpu": [1], "memory_mib": 512}, {"memory_mib": 512}, 1),
    ],
)
def test_what_is_declared_again_is_read_the_same_and_complained_of_again(
    host, complaints, declared, expected, complained
):
    for _ in range(2):
        inventory.record_request(SimpleNamespace(name="p"), inventory.Occasion(), SimpleNamespace(**declared))
    for span in host.spans():
        shape = {key: value for key, value in span.attributes.items() if key.startswith(f"{PREFIX}.")}
        assert shape == {f"{PREFIX}.count": 1} | {f"{PREFIX}.{key}": value for key, value in expected.items()}
    assert len(host.spans()) == 2
    assert len(complaints) == 2 * complained
