"""What was found as JSON, with the keys of the status API; what is not known is left out."""

from typing import Any

from sandgauge_poller.doctor.cures import CURES
from sandgauge_poller.doctor.live_reading import scopes_of
from sandgauge_poller.read.asking import Found
from sandgauge_poller.reading.provider import AllocationReading, SampleReading, SandboxState
from sandgauge_poller.reading.scope import main_component
from sandgauge_poller.reading.usage.rates import window_since
from sandgauge_poller.reading.usage.source import UsageAnswer
from sandgauge_poller.status.rows import Json, amounts, identity, known, seconds
from sandgauge_schemas.names import ErrorType


def document(sandbox_id: str, found: list[Found]) -> Json:
    """Return what each deployment says, in the order of the configuration."""
    return {"sandbox_id": sandbox_id, "deployments": [_deployment(one) for one in found]}


def _deployment(found: Found) -> Json:
    status = found.status
    error_type = ErrorType.NOT_FOUND if status.state is SandboxState.NOT_FOUND else status.error_type
    return known(
        {
            "deployment": found.deployment.name,
            "provider": found.deployment.provider,
            "state": status.state.value if status.state is not None else None,
            "expires_at": seconds(status.expires_at_ns),
            **_error(error_type),
            "allocation": _allocation(found.allocation) if found.allocation is not None else None,
            "reading": _reading(found.allocation, found.sample) if found.allocation and found.sample else None,
            "usage": [_usage(answer) for answer in found.usage] or None,
        }
    )


def _error(error_type: ErrorType | None) -> dict[str, Any]:
    return {} if error_type is None else {"error_type": error_type.value, "cure": CURES[error_type]}


def _allocation(reading: AllocationReading) -> Json:
    allocation = reading.allocation
    components = [
        {"name": component.name, "requests": amounts(component.requests), "limits": amounts(component.limits)}
        for component in allocation.components
    ]
    main = main_component(allocation.components)
    return known(
        {
            "source": reading.source.value,
            "at": seconds(reading.window.end_ns),
            **_error(reading.error_type),
            "components": components or None,
            "main_component": main.name if main is not None else None,
            "notes": list(allocation.notes) or None,
            "designator": identity(allocation.designator),
            "host": identity(allocation.host),
            "started_at": seconds(reading.started_ns),
            "restarts": reading.restarts,
            "oom_killed": reading.oom_killed,
        }
    )


def _reading(allocation: AllocationReading, sample: SampleReading) -> Json:
    window, usage, scopes = sample.window, sample.usage, scopes_of(allocation, sample)
    fields: dict[str, Any] = {
        "source": sample.source.value,
        "at": seconds(window.end_ns),
        "took_s": round((window.end_ns - window.start_ns) / 1e9, 3),
        **_error(sample.error_type),
    }
    if usage is not None and scopes is not None:
        fields |= {
            "cpu_count": usage.cpu_count,
            "cpu_used_percentage": usage.cpu_used_percentage,
            "memory_total_mib": usage.memory_total_mib,
            "memory_used_mib": usage.memory_used_mib,
        }
        for quantity, decision in (("cpu", scopes.cpu), ("memory", scopes.memory)):
            fields[f"{quantity}_scope"] = decision.scope.value
            fields[f"{quantity}_scope_evidence"] = decision.evidence.value
    return known(fields)


def _usage(answer: UsageAnswer) -> Json:
    fields: dict[str, Any] = {
        "source": answer.source.value,
        "at": seconds(answer.window.end_ns),
        **_error(answer.error_type),
    }
    if answer.observation is not None:
        window = window_since(None, answer.observation, 0)
        fields |= {
            "cpu_used_cores": window.cpu_used_cores if window is not None else None,
            "window_s": window.window_s if window is not None else None,
            "memory_working_set_mib": answer.observation.memory_working_set_mib,
        }
    return known(fields)
