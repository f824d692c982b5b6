"""What may be listed, and what it takes: the words for logs and for the doctor."""

from enum import Enum
from http import HTTPStatus
from typing import Any

from sandgauge_poller.reading.kubernetes.lists import Listing
from sandgauge_schemas.names import ErrorType


class PodList(Enum):
    """A list of the pods of a namespace."""

    METRICS = "metrics.k8s.io"
    CORE = ""

    def path(self, namespace: str) -> str:
        """Return where an API server serves it; `namespace` is a name and nothing else."""
        root = "apis/metrics.k8s.io/v1beta1" if self is PodList.METRICS else "api/v1"
        return f"{root}/namespaces/{namespace}/pods"

    def __str__(self) -> str:
        return "pods of metrics.k8s.io" if self is PodList.METRICS else "pods"


def explain(listed: PodList, namespace: str, listing: Listing[Any]) -> tuple[str, str] | None:
    """Return why there is no list, and the cure; None where there is one. No body is quoted."""
    if listing.error_type is None:
        return None
    if listing.status == HTTPStatus.FORBIDDEN:
        rule = f'apiGroups: ["{listed.value}"], resources: ["pods"], verbs: ["list"]'
        return (
            f"the user may not list {listed} in namespace {namespace} (HTTP 403)",
            f"add the rule {{{rule}}} to its Role there (collector-config/kubernetes/rbac.yaml)",
        )
    if listed is PodList.METRICS and listing.status in _ABSENT:
        return _ABSENT[listing.status]
    if listing.status in _BY_STATUS:
        return _BY_STATUS[listing.status]
    if listing.error_type in _BY_ERROR:
        return _BY_ERROR[listing.error_type]
    return f"the list of {listed} in namespace {namespace} failed (HTTP {listing.status})", "read the API server's log"


_ABSENT: dict[int | None, tuple[str, str]] = {
    HTTPStatus.NOT_FOUND: ("metrics.k8s.io is not served (HTTP 404)", "install metrics-server in the cluster"),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "metrics.k8s.io has nothing behind it that answers (HTTP 503)",
        "look at metrics-server and the APIService v1beta1.metrics.k8s.io",
    ),
}
_BY_STATUS: dict[int | None, tuple[str, str]] = {
    HTTPStatus.UNAUTHORIZED: (
        "the API server does not take the credentials (HTTP 401)",
        "give the poller a token or certificate of this cluster that has not expired",
    ),
}
_UNREACHABLE = "check that the server of the credentials is reached from here, and that their authority signed for it"
_BY_ERROR = {
    ErrorType.TIMEOUT: ("the API server gave no answer in time", "raise timeout, or look at the API server"),
    ErrorType.CONNECTION: ("there is no connection to the API server", _UNREACHABLE),
    ErrorType.REDIRECT: ("the API server redirects, which is not followed", "name the server that it leads to"),
    ErrorType.BODY_TOO_LARGE: ("a list of pods is larger than is read", "spread sandboxes over more namespaces"),
    ErrorType.UNRECOGNIZED_FORMAT: ("the API server answers, but not with a list of pods", _UNREACHABLE),
}
