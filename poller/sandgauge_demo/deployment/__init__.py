"""A simulated OpenSandbox deployment: its control plane, and an execd in each of its sandboxes.

It behaves as opensandbox-server 1.1.1 with execd 1.0.19 was measured to: statuses, shapes, headers, error bodies, the
inspect texts, the one-second block of a reading, whose machine the numbers describe, and what pausing, deleting and a
dead execd look like. Error messages are its own: the real ones are for people.
"""

from sandgauge_demo.deployment.direct import EndpointForm
from sandgauge_demo.deployment.faults import Fault, FaultBook, Route
from sandgauge_demo.deployment.journal import Journal, SeenRequest
from sandgauge_demo.deployment.model import (
    Component,
    ExecdKind,
    Runtime,
    SandboxState,
    SimulatedNode,
    SimulatedSandbox,
)
from sandgauge_demo.deployment.registry import SimulatedDeployment, UnknownSandboxError, WrongStateError
from sandgauge_demo.deployment.server import API_KEY_HEADER, DeploymentSettings, SimulatedOpenSandbox
from sandgauge_demo.deployment.specs import SandboxChanges, SandboxSpec
from sandgauge_demo.deployment.usage import Timeline, UsagePoint

__all__ = [
    "API_KEY_HEADER",
    "Component",
    "DeploymentSettings",
    "EndpointForm",
    "ExecdKind",
    "Fault",
    "FaultBook",
    "Journal",
    "Route",
    "Runtime",
    "SandboxChanges",
    "SandboxSpec",
    "SandboxState",
    "SeenRequest",
    "SimulatedDeployment",
    "SimulatedNode",
    "SimulatedOpenSandbox",
    "SimulatedSandbox",
    "Timeline",
    "UnknownSandboxError",
    "UsagePoint",
    "WrongStateError",
]
