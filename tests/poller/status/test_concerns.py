"""What is said to be wrong with the poller, and that nothing is while all is well."""

import pytest

from sandgauge_poller.status.concerns import concerns
from sandgauge_schemas.names import SandboxState


def overview(*, deployment=None, outbox_age_s=0.4, unmatched=0, deployments=None, **readiness):
    """Return what an overview finds where all is well, but for what is given."""
    one = {
        "name": "training",
        "interval_s": 10.0,
        "effective_interval_s": 10.0,
        "control_plane": {"last_answer": "ok", "seconds_ago": 1.0},
        **(deployment or {}),
    }
    return {
        "readiness": {"ready": True, "store": True, "ingest": True, **readiness},
        "sandboxes": {"by_state": {SandboxState.UNMATCHED.value: unmatched}},
        "deployments": [one] if deployments is None else deployments,
        "outbox": {"traces": {"bytes": 10, "age_s": outbox_age_s, "items": {}}},
    }


def test_nothing_is_wrong_while_all_is_well():
    assert list(concerns(overview())) == []
    assert list(concerns(overview(deployment={"control_plane": {"last_answer": "not_asked"}}))) == []
    assert list(concerns(overview(deployment={"interval_s": 0.0, "effective_interval_s": 0.0}))) == []


@pytest.mark.parametrize(
    ("changed", "severity", "text", "cure"),
    [
        ({"store_trouble": "the disk is full"}, "error", "not kept: the disk is full", "state.directory"),
        ({"ingest": False}, "error", "not taken in yet", "ready"),
        ({"outbox_age_s": 190.0}, "error", "not taken the oldest traces for 3m10s", "export.endpoint"),
        ({"unmatched": 1}, "warning", "1 sandbox matches no deployment", "deployments[].scopes"),
        ({"unmatched": 12}, "warning", "12 sandboxes match", "deployments[].scopes"),
        ({"deployments": []}, "warning", "no deployment is configured", "deployments"),
        (
            {"deployment": {"control_plane": {"last_answer": "unauthorized", "seconds_ago": 1.0}}},
            "error",
            "training: the control plane refuses",
            "api_key",
        ),
        (
            {"deployment": {"control_plane": {"last_answer": "connection", "seconds_ago": 1.0}}},
            "error",
            "training: the control plane gives no answer (connection)",
            "endpoint",
        ),
        (
            {"deployment": {"effective_interval_s": 14.2}},
            "warning",
            "each is read every 14 s, not 10 s",
            "max_concurrent_proxied_reads",
        ),
    ],
)
def test_what_is_wrong_is_said_once_with_its_cure(changed, severity, text, cure):
    (found,) = concerns(overview(**changed))
    said = found.as_json()
    assert said["severity"] == severity
    assert text in said["text"]
    assert cure in said["cure"]


def test_the_worst_comes_first():
    found = list(concerns(overview(unmatched=3, store_trouble="full")))
    assert [concern.severity.value for concern in found] == ["error", "warning"]
