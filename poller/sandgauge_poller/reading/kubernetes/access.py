"""Which credentials a poller has: those of a kubeconfig if one is named, else those of its pod."""

from collections.abc import Mapping
from pathlib import Path

from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.kubernetes.credentials import Credentials
from sandgauge_poller.reading.kubernetes.in_cluster import in_cluster_credentials
from sandgauge_poller.reading.kubernetes.kubeconfig import kubeconfig_credentials


def load_credentials(
    kubeconfig: Path | None, context: str, environ: Mapping[str, str], clock: Clock = SYSTEM_CLOCK
) -> Credentials:
    """Return them; raises CredentialsError with file, key and cure."""
    if kubeconfig is None:
        return in_cluster_credentials(environ, clock=clock)
    return kubeconfig_credentials(kubeconfig, context, clock)
