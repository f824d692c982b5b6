"""A port that closes in the very turn of the event loop in which somebody calls."""

import asyncio
import gc
import socket
import warnings

import pytest

from sandgauge_demo.deployment.listener import Listener


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns_before", range(4))
@pytest.mark.parametrize("is_serving", [True, False])
async def test_a_connection_that_comes_as_its_port_closes_is_closed_or_served(turns_before, is_serving):
    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always", ResourceWarning)
        served = []
        listener = Listener(lambda: served.append(asyncio.Protocol()) or served[-1], "127.0.0.1")
        if is_serving:
            await turns(3)
        with socket.create_connection(("127.0.0.1", listener.port)) as caller:
            await turns(turns_before)
            listener.close()
            listener.close()
            assert not listener.is_open
            await turns(5)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", listener.port), timeout=10)
            if not served:  # then it was cut off
                caller.settimeout(10)
                with pytest.raises(ConnectionResetError):
                    caller.recv(1)
        await asyncio.sleep(0.01)
        served.clear()
        gc.collect()
    assert left_open == []
