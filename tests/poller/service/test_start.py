"""A poller that cannot start says why, and leaves nothing running."""

import asyncio
import ssl
import threading

import pytest

from sandgauge_poller.config import Config
from sandgauge_poller.service import Poller


async def test_what_went_wrong_at_the_start_is_what_is_raised(tmp_path):
    no_certificate = tmp_path / "ca.pem"
    no_certificate.write_text("x")
    tls = {"ca_file": no_certificate}  # a path, unlike the text of a file, is taken unread
    config = Config.model_validate(
        {
            "state": {"directory": tmp_path / "state"},
            "deployments": [{"name": "training", "endpoint": "https://127.0.0.1:1", "tls": tls}],
        }
    )
    with pytest.raises(ssl.SSLError):
        await Poller(config).run(asyncio.Event())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sandgauge")]
