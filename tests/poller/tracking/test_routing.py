import pytest

from sandgauge_poller.tracking.routing import DeploymentNames, RouteOutcome, Routing

EAST = DeploymentNames("east", "opensandbox", frozenset({"http://east:8080", "https://east.example"}))
WEST = DeploymentNames("west", "opensandbox", frozenset({"http://west:8080"}))
LOCAL = DeploymentNames("local", "docker", frozenset({"http://docker:2375"}))
SOCKET = DeploymentNames("socket", "docker", frozenset({"unix:///var/run/docker.sock"}))
NAMELIKE = DeploymentNames("opensandbox", "docker", frozenset({"http://docker:2375"}))


@pytest.mark.parametrize(
    ("deployments", "provider", "scope", "owner", "outcome"),
    [
        ([EAST], "opensandbox", None, "east", "matched"),
        ([EAST], "opensandbox", "http://elsewhere", "east", "matched"),
        ([EAST], None, None, "east", "matched"),
        ([EAST], None, "not a url", "east", "matched"),
        ([EAST], "fake", "http://east:8080", "provider:fake", "not_configured"),
        ([EAST, WEST], "opensandbox", "http://west:8080", "west", "matched"),
        ([EAST, WEST], "opensandbox", "HTTP://WEST:8080/v1/", "west", "matched"),
        ([EAST, WEST], "opensandbox", "https://user:pass@east.example:443/?q=1#f", "east", "matched"),
        ([EAST, WEST], "opensandbox", None, "provider:opensandbox", "unmatched"),
        ([EAST, WEST], "opensandbox", "http://elsewhere", "provider:opensandbox", "unmatched"),
        ([EAST, WEST], None, "http://west:8080", "west", "matched"),
        ([EAST, WEST], None, None, "provider:", "unmatched"),
        ([EAST, LOCAL], "docker", None, "local", "matched"),
        ([EAST, LOCAL], None, None, "provider:", "unmatched"),
        ([LOCAL, SOCKET], "docker", "unix:///var/run/docker.sock", "socket", "matched"),
        ([LOCAL, SOCKET], "docker", None, "provider:docker", "unmatched"),
        ([NAMELIKE], "opensandbox", None, "provider:opensandbox", "not_configured"),
        ([], None, None, "provider:", "not_configured"),
        ([], "opensandbox", "http://east:8080", "provider:opensandbox", "not_configured"),
    ],
)
def test_a_span_goes_to_the_deployment_that_it_can_only_mean(deployments, provider, scope, owner, outcome):
    route = Routing(deployments).route(provider, scope)
    assert (route.owner, route.outcome) == (owner, RouteOutcome(outcome))
    assert (route.deployment == route.owner) == (outcome == "matched")


def test_a_stop_may_come_under_its_deployment_or_under_none():
    routing = Routing([EAST, WEST])
    assert routing.stop_owners("east") == ("east", "provider:opensandbox", "provider:")
    assert routing.stop_owners("provider:fake") == ("provider:fake",)
