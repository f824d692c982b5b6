import base64

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.status.access import PageToken

TOKEN = "s3cret:with a colon"


def may_see(header, token):
    return PageToken(token).is_shown_by(make_mocked_request("GET", "/", headers={"Authorization": header}))


def basic(user_and_password):
    return "Basic " + base64.b64encode(user_and_password.encode()).decode()


@pytest.mark.parametrize(
    "header",
    [
        f"Bearer {TOKEN}",
        f"bearer  {TOKEN} ",
        basic(f":{TOKEN}"),
        basic(f"anyone:{TOKEN}"),
        basic(f":{TOKEN}").upper()[:5] + basic(f":{TOKEN}")[5:],
    ],
)
def test_the_token_opens(header):
    assert may_see(header, TOKEN)


@pytest.mark.parametrize(
    "header",
    [
        "",
        TOKEN,
        "Bearer",
        "Bearer other",
        f"Bearer {TOKEN}x",
        f"Digest {TOKEN}",
        f"Basic {TOKEN}",
        basic(TOKEN),
        basic("no-colon"),
        basic(f"{TOKEN}:"),
        "Basic ",
        "Basic ====",
        "Basic \u00e9",
        "Bearer \u00ff",
    ],
)
def test_nothing_else_does(header):
    assert not may_see(header, TOKEN)


@given(st.text())
def test_no_header_raises_and_without_a_token_all_may_see(header):
    assert not may_see(header, TOKEN)
    assert may_see(header, "")
