import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_schemas.wording import number_of, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sbx-12 é 中", "sbx-12 é 中"),
        ("a\x1b[31mb\r\nc\x9b", r"a\x1b[31mb\r\nc\x9b"),
        ("0-0\u202e1-7", r"0-0\u202e1-7"),
        ("\u2066a\u2069\u200b\ufeff", r"\u2066a\u2069\u200b\ufeff"),
        ("\ud800\U000e0041", r"\ud800\U000e0041"),
    ],
)
def test_what_is_not_itself_to_be_seen_is_an_escape(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_whatever_comes_can_be_seen_and_written(text):
    shown = printable(text)
    shown.encode()
    assert not {unicodedata.category(one) for one in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (0, "sandbox", "0 sandboxes"),
        (1, "sandbox", "1 sandbox"),
        (10_000, "sandbox", "10,000 sandboxes"),
        (1, "deployment", "1 deployment"),
        (2, "more line", "2 more lines"),
    ],
)
def test_a_noun_ends_as_its_count_wants(count, noun, said):
    assert number_of(count, noun) == said
