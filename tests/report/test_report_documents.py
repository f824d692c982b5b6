import gzip
import io
import json
import sys

import pytest

from sandgauge_report.reading.documents import Document, Unreadable, documents
from sandgauge_report.reading.files import InputError, lines

ONE, TWO = {"resourceSpans": []}, {"resourceSpans": [{}]}


def read(path, **bounds):
    return list(documents(lines(str(path), lambda position: None, **bounds)))


def written(tmp_path, content):
    path = tmp_path / "spans.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pretty(value):
    return json.dumps(value, indent=2)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", []),
        ("\n \r\n\n", []),
        (f"{json.dumps(ONE)}\n{json.dumps(TWO)}\n", [Document(1, ONE), Document(2, TWO)]),
        (f"\ufeff{json.dumps(ONE)}\r\n\r\n{json.dumps(TWO)}", [Document(1, ONE), Document(3, TWO)]),
        (f"{pretty(TWO)}\n{json.dumps(ONE)}\n", [Document(1, TWO), Document(6, ONE)]),
        (f"{pretty([ONE, TWO])}\n", [Document(1, [ONE, TWO])]),
        (
            f'{json.dumps(TWO)}\n{{"resourceSpans": [{{',
            [Document(1, TWO), Unreadable(2, "cut off in the middle of a record")],
        ),
        (
            f'{{"resourceSpans": [{{\n{json.dumps(ONE)}',
            [Unreadable(1, "cut off in the middle of a record"), Document(2, ONE)],
        ),
        ('{"a": 1\n}}\n', [Unreadable(1, "not JSON")]),
        (f"kernel: oops\n{json.dumps(ONE)}", [Unreadable(1, "not JSON"), Document(2, ONE)]),
        (f"{'[' * 100_000}\n", [Unreadable(1, "cut off in the middle of a record")]),
        (b"\xff\xfe{\x00\n", [Unreadable(1, "not JSON")]),
    ],
    ids=[
        "empty",
        "blank",
        "lines",
        "BOM and CRLF",
        "pretty first",
        "a list",
        "cut end",
        "cut",
        "wrong",
        "text",
        "deep",
        "no UTF-8",
    ],
)
def test_documents_of_a_file(tmp_path, content, found):
    assert read(written(tmp_path, content)) == found


def test_gzip_is_known_by_its_first_bytes_and_not_by_its_name(tmp_path):
    assert read(written(tmp_path, gzip.compress(json.dumps(ONE).encode()))) == [Document(1, ONE)]


def test_several_gzip_members_are_one_file(tmp_path):
    member = gzip.compress(f"{json.dumps(ONE)}\n".encode())
    assert read(written(tmp_path, member * 2)) == [Document(1, ONE), Document(2, ONE)]


def test_a_gzip_stream_that_is_cut_off_gives_what_it_has_and_says_so(tmp_path):
    content = gzip.compress("".join(f"{json.dumps(ONE)}\n" for _ in range(2000)).encode())
    found = []
    with pytest.raises(InputError, match=r"spans\.jsonl: the gzip stream is cut off"):
        found.extend(documents(lines(str(written(tmp_path, content[:-10])), lambda position: None)))
    path = written(tmp_path, content[:-10])
    stream = documents(lines(str(path), lambda position: None))
    assert next(stream) == Document(1, ONE)


def test_what_follows_a_gzip_stream_and_is_none_is_named_and_the_stream_still_read(tmp_path):
    path = written(tmp_path, gzip.compress(f"{json.dumps(ONE)}\n".encode()) + b"rubbish")
    stream = documents(lines(str(path), lambda position: None))
    assert next(stream) == Document(1, ONE)
    with pytest.raises(InputError, match="cut off or damaged; what came before is in the report"):
        next(stream)


def test_zstd_is_named_with_its_cure(tmp_path):
    with pytest.raises(InputError, match="zstdcat"):
        read(written(tmp_path, b"\x28\xb5\x2f\xfd and more"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.jsonl: No such file"):
        read(tmp_path / "absent.jsonl")


def test_a_line_beyond_all_bounds_is_passed_over(tmp_path):
    content = f"{json.dumps(ONE)}\n{'x' * 500}\n{json.dumps(TWO)}\n"
    assert read(written(tmp_path, content), max_line=100) == [
        Document(1, ONE),
        Unreadable(2, "longer than any record"),
        Document(3, TWO),
    ]


def test_standard_input_is_read_and_left_open(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(json.dumps(ONE).encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    assert read("-") == [Document(1, ONE)]
    assert not stream.buffer.closed


def test_how_far_it_is_read_is_told_in_bytes_of_the_file(tmp_path):
    path = written(tmp_path, f"{json.dumps(ONE)}\n" * 3)
    told = []
    list(lines(str(path), told.append))
    assert told[-1] == path.stat().st_size
