from nemo_gym.sandbox.providers.registry import get_provider_class

__all__ = ["get_provider_class"]
