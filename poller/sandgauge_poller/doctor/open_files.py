"""How many files this system lets a process open, against the connections that a poller keeps."""

import resource

from sandgauge_poller.config import Config, ProxyUse
from sandgauge_poller.doctor.finding import Finding, passed, warned

_WHAT = "open files"
_OF_ITS_OWN = 256
"""Store, listeners, and connections to the Collector, the control planes and whoever sends spans."""


def examine(config: Config) -> Finding:
    """Compare the hard limit, which a poller takes, with what it may need: a sandbox read directly keeps a connection.

    The limit is that of the doctor's own process; a service may be given another one.
    """
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    read_within = [deployment for deployment in config.deployments if deployment.execd]
    direct = any(deployment.use_server_proxy is not ProxyUse.ALWAYS for deployment in read_within)
    proxied = sum(deployment.max_concurrent_proxied_reads for deployment in read_within)
    wanted = _OF_ITS_OWN + proxied + (config.tracking.max_sandboxes if direct else 0)
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        return passed(_WHAT, f"the limit carries {wanted}")
    cure = "raise the hard limit (ulimit -Hn, LimitNOFILE=), or lower tracking.max_sandboxes"
    return warned(_WHAT, f"the limit is {limit}, and tracking.max_sandboxes may take {wanted}", cure)
