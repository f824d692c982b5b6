from nemo_gym.sandbox.api import AsyncSandbox


class AsyncSandboxCompose:
    def __init__(self, provider, specs, helper=None):
        self.project = "compose-1"
        self.services = {}
        self._provider = provider
        self._specs = specs
        self._helper = helper

    async def start(self):
        self._plans = {name: {"spec": spec} for name, spec in self._specs.items()}
        if self._helper is not None:
            await AsyncSandbox(self._provider, self._helper).start()
        for name, spec in self._specs.items():
            self.services[name] = AsyncSandbox(self._provider, spec)
            await self.services[name].start()
        return self
