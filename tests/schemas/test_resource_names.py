import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_schemas.names import AllocationNote
from sandgauge_schemas.resource_names import VOCABULARY, read_amounts
from sandgauge_schemas.resources import RESOURCE_KEYS, SandboxResourceAmounts

UNREADABLE = frozenset({AllocationNote.UNREADABLE_QUANTITY})
NOTHING = SandboxResourceAmounts()


def test_the_whole_vocabulary_is_read() -> None:
    quantities = {"cpu": "100m", "memory": "129M", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "2"}
    amounts, notes = read_amounts(quantities)
    assert amounts == SandboxResourceAmounts(cpu=0.1, memory_mib=129_000_000 / 2**20, disk_gib=10.0, gpu=2)
    assert notes == frozenset()
    assert isinstance(amounts.gpu, int)
    assert isinstance(amounts.cpu, float)
    assert isinstance(amounts.memory_mib, float)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpu.shared",
        "nvidia.com/gpumem",
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/millicores",
        "hugepages-2Mi",
        "hugepages-1Gi",
        "rdma/hca",
        "example.com/widget",
        "example.com/gpu",
        "storage",
        "pods",
        "CPU",
        "Memory",
        " cpu",
        "",
    ],
)
def test_a_name_outside_the_table_means_nothing(name: str) -> None:
    assert read_amounts({name: "3"}) == (NOTHING, frozenset())
    assert read_amounts({name: "not a quantity"}) == (NOTHING, frozenset())


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"])
def test_whole_devices_are_counted(name: str) -> None:
    assert read_amounts({name: "1"}) == (SandboxResourceAmounts(gpu=1), frozenset())
    assert read_amounts({name: "2k"}) == (SandboxResourceAmounts(gpu=2000), frozenset())


def test_gpus_of_two_names_add_up() -> None:
    assert read_amounts({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}) == (SandboxResourceAmounts(gpu=3), frozenset())


@pytest.mark.parametrize("order", [("nvidia.com/gpu", "amd.com/gpu"), ("amd.com/gpu", "nvidia.com/gpu")])
def test_a_sum_of_gpus_with_an_unreadable_part_is_absent(order: tuple[str, str]) -> None:
    texts = {"nvidia.com/gpu": "2", "amd.com/gpu": "one"}
    assert read_amounts({name: texts[name] for name in order}) == (NOTHING, UNREADABLE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cpu", "1_0"),
        ("cpu", ""),
        ("cpu", "-1"),
        ("memory", "1KiB"),
        ("memory", "1e999999999"),
        ("ephemeral-storage", "ten"),
        ("nvidia.com/gpu", "500m"),
        ("nvidia.com/gpu", "-1"),
        ("nvidia.com/gpu", "1e30"),
    ],
)
def test_an_unreadable_quantity_is_absent_and_noted_and_harms_no_other(name: str, text: str) -> None:
    other = "memory" if name == "cpu" else "cpu"
    expected = SandboxResourceAmounts(memory_mib=1024.0) if other == "memory" else SandboxResourceAmounts(cpu=2**30)
    assert read_amounts({name: text, other: "1Gi"}) == (expected, UNREADABLE)


def test_zero_is_a_value() -> None:
    assert read_amounts({"cpu": "0", "nvidia.com/gpu": "0"}) == (SandboxResourceAmounts(cpu=0.0, gpu=0), frozenset())


@given(st.dictionaries(st.sampled_from([*VOCABULARY, "hugepages-2Mi"]) | st.text(max_size=8), st.text(max_size=12)))
def test_any_map_is_read(quantities: dict[str, str]) -> None:
    amounts, notes = read_amounts(quantities)
    for key in RESOURCE_KEYS:
        value = getattr(amounts, key)
        assert value is None or value >= 0
    assert notes <= UNREADABLE
