from nemo_gym.sandbox.adapters.docker_compose import AsyncSandboxCompose
from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.sandbox.providers import get_provider_class

__all__ = ["AsyncSandbox", "AsyncSandboxCompose", "get_provider_class"]
