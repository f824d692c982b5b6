"""Credentials of a pod's own service account."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from yarl import URL

from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.kubernetes.credentials import (
    BearerToken,
    Credentials,
    CredentialsError,
    make_tls,
    read_file,
    read_token,
)

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_PLACE = "usage of kubernetes without a kubeconfig"
_CURE = "run the poller in a pod with a service account (automountServiceAccountToken), or name a kubeconfig"


def in_cluster_credentials(
    environ: Mapping[str, str], folder: Path = FOLDER, clock: Clock = SYSTEM_CLOCK
) -> Credentials:
    """Return the credentials that Kubernetes puts into every pod; raises CredentialsError outside of one."""
    host, port = environ.get(_HOST, ""), environ.get(_PORT, "")
    if not host or not port.isdecimal():
        raise CredentialsError(_PLACE, f"{_HOST} and {_PORT} are not set, so this is no pod", _CURE)
    token_file = folder / "token"
    read_token(token_file, _PLACE)
    namespace = read_file(folder / "namespace", _PLACE, _CURE).decode(errors="replace").strip()
    try:
        tls = make_tls(read_file(folder / "ca.crt", _PLACE, _CURE))
    except (ssl.SSLError, ValueError):
        raise CredentialsError(_PLACE, f"{folder / 'ca.crt'} holds no certificate", _CURE) from None
    return Credentials(
        server=URL.build(scheme="https", host=host, port=int(port)),
        namespace=namespace or "default",
        token=BearerToken(file=token_file, clock=clock),
        tls=tls,
    )
