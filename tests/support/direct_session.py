"""HTTP for tests, whose every address is on this machine: a proxy that the environment names is not asked."""

import requests


def direct_session() -> requests.Session:
    """Return a session to be closed by whoever opens it."""
    session = requests.Session()
    session.trust_env = False
    return session
