from nemo_gym.sandbox.providers.registry import create_provider

__all__ = ["AsyncSandbox", "create_provider"]


class AsyncSandbox:
    def __init__(self, provider, spec=None, tries=1):
        self._provider = provider
        self._spec = spec
        self._tries = tries
        self.handle = None

    async def start(self, spec=None):
        if spec is None and self._spec is None:
            raise ValueError("no spec")
        for _ in range(self._tries - 1):
            try:
                self.handle = await self._provider.create(spec or self._spec)
            except TimeoutError:
                continue
            return self
        self.handle = await self._provider.create(spec or self._spec)
        return self

    async def exec(self, command):
        return await self._provider.exec(self.handle, command)

    async def stop(self):
        await self._provider.close(self.handle)
