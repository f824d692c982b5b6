import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_schemas.scope import control_plane_scope


@pytest.mark.parametrize(
    ("url", "scope"),
    [
        ("http://osb.example:8080", "http://osb.example:8080"),
        ("https://osb.example/v1/", "https://osb.example/v1/"),
        ("http://user:pa55@osb.example:8080/v1", "http://osb.example:8080/v1"),
        ("http://pa55@osb.example", "http://osb.example"),
        ("http://user:p@55@osb.example", "http://osb.example"),
        ("http://osb.example/v1?api_key=pa55#pa55", "http://osb.example/v1"),
        ("http://[::1]:8080/base", "http://[::1]:8080/base"),
        ("http://OSB.example:80", "http://OSB.example:80"),
        ("unix:///var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("unix:///var/run/docker.sock?key=pa55#pa55", "unix:///var/run/docker.sock"),
        ("unix:/var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("unix://pa55@host/docker.sock", None),
        ("unix:docker.sock", None),
        ("unix://", None),
        ("user:pa55@osb.example:8080", None),
        ("osb.example:8080", None),
        ("http://user:pa55@", None),
        ("http://", None),
        ("http://osb.example:port", None),
        ("http://osb.example/ pa55", None),
        ("http://osb\n.example", None),
        ("", None),
    ],
)
def test_a_scope_is_the_url_without_what_may_be_secret(url, scope):
    assert control_plane_scope(url) == scope


SECRET = st.text(st.characters(categories=("L", "N")), min_size=6).map(lambda text: f"s3cr3t{text}")


@given(secret=SECRET, user=st.sampled_from(["", "user:", "a@b:"]), path=st.sampled_from(["", "/v1", "/base/v1/"]))
def test_no_secret_is_left_wherever_it_stood(secret, user, path):
    for url in (f"http://{user}{secret}@h{path}", f"http://h{path}?key={secret}", f"http://h{path}#{secret}"):
        assert control_plane_scope(url) == f"http://h{path}"


@given(st.text())
def test_any_text_is_taken_and_settled_at_once(url):
    scope = control_plane_scope(url)
    assert scope is None or control_plane_scope(scope) == scope
