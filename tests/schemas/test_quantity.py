import json
import math
import re
import sys
from decimal import Context, localcontext
from fractions import Fraction
from pathlib import Path
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandgauge_schemas.quantity import MAX_COUNT, Quantity, QuantityError, parse_quantity

ANSWERS = json.loads((Path(__file__).parents[1] / "fixtures/quantity/api-server-answers.json").read_text())
SCALES = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(["n", "u", "m", "", *"kMGTPE"], start=-3)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


def parsed(text: str) -> Quantity:
    quantity = parse_quantity(text)
    assert isinstance(quantity, Quantity), (text, quantity)
    return quantity


def exactly(quantity: Quantity) -> Fraction:
    return Fraction(quantity.value)


@st.composite
def quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text of the grammar and, reckoned apart from it, its exact value."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.text("0123456789", max_size=16))
    fraction = draw(st.none() | st.text("0123456789", max_size=16))
    if not whole and not fraction:
        whole = "0"
    number = whole if fraction is None else f"{whole}.{fraction}"
    value = Fraction(int(whole or "0")) + Fraction(int(fraction or "0"), 10 ** len(fraction or ""))
    if draw(st.booleans()):
        power = draw(st.integers(-30, 30))
        suffix = f"{draw(st.sampled_from('eE'))}{draw(st.sampled_from(['', '+'])) if power >= 0 else ''}{power}"
        scale = Fraction(10) ** power
    else:
        suffix = draw(st.sampled_from(list(SCALES)))
        scale = SCALES[suffix]
    return f"{sign}{number}{suffix}", value * scale * (-1 if sign == "-" else 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("8Gi", 8 * 1024**3),
        ("129M", 129_000_000),
        ("1E", 10**18),
        ("1Ei", 1024**6),
        ("1E3", 1000),
        ("1e3", 1000),
        ("100e-3", Fraction(1, 10)),
        ("1e+2", 100),
        ("1e0000000000002", 100),
        ("5.", 5),
        (".5", Fraction(1, 2)),
        ("+1", 1),
        ("-1", -1),
        ("-0", 0),
        ("0e5", 0),
        ("0001.50Ki", 1536),
        ("1n", Fraction(1, 10**9)),
        ("9223372036854775808", 2**63),
        ("1288490188800m", Fraction(1288490188800, 1000)),
        ("1.5Ei", 3 * 1024**6 / Fraction(2)),
    ],
)
def test_value_is_exact(text: str, value: Fraction) -> None:
    assert exactly(parsed(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "+", "-", "e3", "1e", "1e+", "1_0", "0x1", "1 ", " 1", "1\n", "1K", "1ki", "1KiB", "128MB", "128mi"),
        *("1Mi2", "1e3m", "1e3Mi", "1.2.3", "--1", "+-1", "1e1.5", "1ee3", "1i", "NaN", "inf", "Infinity", "1,5"),
        *("\N{ARABIC-INDIC DIGIT THREE}", "1\N{VULGAR FRACTION ONE HALF}", "1Gi\x00"),
    ],
)
def test_text_outside_the_grammar_is_an_error(text: str) -> None:
    assert parse_quantity(text) is QuantityError.MALFORMED


@pytest.mark.parametrize(
    "text",
    [
        *("1e999999999", "1e-999999999", "1e" + "9" * 200, "1e101", "1e-101", "9" * 65, "0" * 257, "1" * 100_000),
        *("0." + "0" * 100_000 + "1", "1e" + "0" * 100_000 + "1", "." * 100_000, "1" * 64 + "E" + "9" * 100_000),
    ],
)
def test_extremes_are_an_error_at_bounded_cost(text: str) -> None:
    took_s = []
    for _ in range(3):  # the garbage of a whole test run may be looked for in one of them
        started = process_time()
        assert parse_quantity(text) is QuantityError.OUT_OF_BOUNDS
        took_s.append(process_time() - started)
    assert min(took_s) < 0.05


def test_values_at_the_bounds_are_read_and_stay_finite_and_nonzero() -> None:
    for text in ("1e100", "1e-100", "9" * 64 + "e100", "0." + "0" * 99 + "1", "1" + "0" * 100, f"0.{'0' * 200}1e301"):
        quantity = parsed(text)
        for number in (quantity.to_cores(), quantity.to_mebibytes(), quantity.to_gibibytes()):
            assert math.isfinite(number)
            assert abs(number) >= sys.float_info.min


@pytest.mark.parametrize(
    ("text", "mebibytes", "gibibytes"),
    [
        ("1536Ki", 1.5, 1.5 / 1024),
        ("8Gi", 8192.0, 8.0),
        ("129M", 129_000_000 / 1_048_576, 129_000_000 / 1_073_741_824),
        ("100m", 9.5367431640625e-08, 9.5367431640625e-08 / 1024),
        ("1e10", 10**10 / 2**20, 9.313225746154785),
        ("1E", 953674316406.25, 931322574.6154785),
        ("1Ei", 1099511627776.0, 1073741824.0),
    ],
)
def test_bytes_become_mebibytes_and_gibibytes(text: str, mebibytes: float, gibibytes: float) -> None:
    assert parsed(text).to_mebibytes() == mebibytes
    assert parsed(text).to_gibibytes() == gibibytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("2", 2),
        ("2000m", 2),
        ("1k", 1000),
        (str(MAX_COUNT), MAX_COUNT),
        (str(MAX_COUNT + 1), QuantityError.NOT_A_COUNT),
        ("1e100", QuantityError.NOT_A_COUNT),
        ("1500m", QuantityError.NOT_A_COUNT),
        ("-1", QuantityError.NOT_A_COUNT),
    ],
)
def test_count_is_a_whole_number_or_none(text: str, count: object) -> None:
    assert parsed(text).to_count() == count


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer['res']}={answer['in']!r}")
def test_agrees_with_a_real_api_server(answer: dict[str, object]) -> None:
    """The server trims blanks, takes bare JSON numbers, and rounds up to the milli: what it prints says the same."""
    sent = answer["in"]
    text = sent.strip() if isinstance(sent, str) else f"{sent:f}" if isinstance(sent, float) else str(sent)
    ours = parse_quantity(text)
    if "rejected" in answer:
        # A negative amount is well formed: what is refused there is its use as a limit.
        outside = "must be greater than or equal to 0" not in str(answer["rejected"])
        assert isinstance(ours, QuantityError) == outside
        return
    printed = re.fullmatch(r"\{'(?:cpu|memory)': '([^']+)'\}", str(answer["out"]))
    assert printed is not None
    assert isinstance(ours, Quantity)
    assert exactly(parsed(printed[1])) == Fraction(math.ceil(exactly(ours) * 1000), 1000)


@given(quantities())
def test_every_text_of_the_grammar_has_its_exact_value(sample: tuple[str, Fraction]) -> None:
    text, value = sample
    assert exactly(parsed(text)) == value


@given(quantities())
def test_print_then_parse_is_identity(sample: tuple[str, Fraction]) -> None:
    quantity = parsed(sample[0])
    assert parse_quantity(str(quantity)) == quantity
    assert str(parsed(str(quantity))) == str(quantity)


@given(quantities(), quantities())
def test_order_and_equality_are_those_of_the_values(left: tuple[str, Fraction], right: tuple[str, Fraction]) -> None:
    one, other = parsed(left[0]), parsed(right[0])
    assert (one < other, one == other, one > other) == (left[1] < right[1], left[1] == right[1], left[1] > right[1])
    assert one != other or hash(one) == hash(other)


@given(quantities())
def test_floats_are_the_nearest_to_the_exact_value(sample: tuple[str, Fraction]) -> None:
    quantity = parsed(sample[0])
    assert quantity.to_cores() == float(sample[1])
    assert quantity.to_mebibytes() == float(sample[1] / 2**20)
    assert quantity.to_gibibytes() == float(sample[1] / 2**30)


@given(quantities())
def test_the_callers_decimal_context_changes_nothing(sample: tuple[str, Fraction]) -> None:
    with localcontext(Context(prec=1, Emax=1, Emin=-1)):
        quantity = parsed(sample[0])
        assert str(parsed(str(quantity))) == str(quantity)
        assert quantity.to_mebibytes() == float(sample[1] / 2**20)
    assert exactly(quantity) == sample[1]


@given(st.text() | st.text("0123456789+-.eEinumkKMGTP \n", max_size=300))
@example("1e" + "-" * 200)
@example("\ud800")
def test_any_text_is_a_quantity_or_an_error_and_what_is_read_reads_again(text: str) -> None:
    quantity = parse_quantity(text)
    assert isinstance(quantity, QuantityError) or parse_quantity(str(quantity)) == quantity
