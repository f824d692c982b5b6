from nemo_gym.sandbox.adapters.docker_compose import AsyncSandboxCompose
from nemo_gym.sandbox.api import AsyncSandbox

__all__ = ["AsyncSandbox", "AsyncSandboxCompose"]
