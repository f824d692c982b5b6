"""The files of the Collector's security overlay: certificates of loopback, and a token for each hop."""

import shutil
from pathlib import Path

from support.certificate import make_certificate

TOKENS = {
    "sender-tokens": "token-of-gym\ntoken-of-poller\n",
    "poller-token": "token-for-poller\n",
    "traces-token": "token-for-traces",
    "metrics-token": "token-for-metrics",
}
"""What is in each file. No token is in two of them, so that one on the wrong hop shows."""


def make_secrets(folder: Path) -> Path:
    """Write all of them into a new folder and return it; the one certificate is everybody's, and trusted by all."""
    folder.mkdir()
    shutil.move(make_certificate(folder), folder / "tls.crt")
    shutil.move(folder / "key.pem", folder / "tls.key")
    shutil.copy(folder / "tls.crt", folder / "ca.crt")
    for name, content in TOKENS.items():
        (folder / name).write_text(content)
    return folder
