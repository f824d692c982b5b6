"""A Docker daemon for tests of what becomes of its answers."""

from support.docker_answers import SECRET, inspect_answer
from support.http_stub import StubServer

NAME = "nemo-gym-1"
INSPECT, INFO = f"/v1.41/containers/{NAME}/json", "/v1.41/info"
LIMITED = {"NanoCpus": 600_000_000, "Memory": 134_217_728}


def no_such_container(name: str) -> dict[str, str]:
    return {"message": f"No such container: {name}"}


class StubDocker(StubServer):
    """A daemon with one container, which speaks version 1.41 of the API."""

    def __init__(self) -> None:
        super().__init__()
        self.say("/version", json={"ApiVersion": "1.41", "Version": "20.10.24"})
        self.say(INFO, json={"Name": "machine-7", "HttpProxy": f"http://{SECRET}@proxy"})
        self.inspected(host=LIMITED)

    def inspected(self, **answer: object) -> None:
        self.say(INSPECT, text=inspect_answer(**answer).decode())
