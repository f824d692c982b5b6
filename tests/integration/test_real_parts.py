import pytest

from support.real_parts import require

REQUIRED = "SANDGAUGE_REQUIRE_REAL_PARTS"


def test_found_part_is_returned():
    assert require("Collector", "path", "build it") == "path"


@pytest.mark.parametrize("value", [None, "", "0"])
def test_missing_part_is_a_skip_that_says_how_to_get_it(monkeypatch, value):
    monkeypatch.delenv(REQUIRED, raising=False)
    if value is not None:
        monkeypatch.setenv(REQUIRED, value)
    with pytest.raises(pytest.skip.Exception, match="Collector not found: build it"):
        require("Collector", None, "build it")


def test_missing_part_is_a_failure_where_all_are_required(monkeypatch):
    monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match="Collector not found: build it"):
        require("Collector", None, "build it")
