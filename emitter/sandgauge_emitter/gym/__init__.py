"""NeMo Gym's sandboxes, recorded without a change to Gym."""

from sandgauge_emitter.gym.instrumentor import GymSandboxInstrumentor

__all__ = ["GymSandboxInstrumentor"]
