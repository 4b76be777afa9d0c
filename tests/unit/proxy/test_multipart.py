"""multipart/form-data, read in pieces of any size."""

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.multipart import MOST_FIELD, MOST_FIELDS, boundary_of, parts, text_of

FORM = (b'preamble\r\n--bo\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--bo\r\ncontent-disposition: form-data; name="file"; filename="a \\"b\\" %22c%22.jsonl"\r\n'
        b'Content-Type: text/plain\r\n\r\nline\r\n--b\r\n--bo--\r\nepilogue')


def read(data, size, boundary=b"bo"):
    pieces = (data[start:start + size] for start in range(0, len(data), size))
    return [(part.name, part.filename, b"".join(part.pieces)) for part in parts(pieces, boundary)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_any_pieces_give_the_same_parts(size):
    assert read(FORM, size) == [("purpose", None, b"batch"), ("file", 'a "b" "c".jsonl', b"line\r\n--b")]


def test_a_form_without_preamble():
    assert read(FORM.removeprefix(b"preamble\r\n"), 5)[0] == ("purpose", None, b"batch")


@pytest.mark.parametrize("cut", [20, 60, len(FORM) - 12])
def test_a_form_that_breaks_off_is_refused(cut):
    with pytest.raises(RequestRefused, match="ends before its last boundary"):
        read(FORM[:cut], 9)


def test_a_part_without_a_name_is_refused():
    with pytest.raises(RequestRefused, match="no name"):
        read(b"--bo\r\nContent-Disposition: form-data\r\n\r\na\r\n--bo--", 9)


def test_sizes_are_limited():
    head = b'\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--bo'
    with pytest.raises(RequestRefused, match="more than"):
        read(b"--bo" + head * (MOST_FIELDS + 1) + b"--", 1000)
    with pytest.raises(RequestRefused, match="too long"):
        read(b"--bo\r\nX: " + b"a" * 10_000 + head + b"--", 1000)
    form = b'--bo\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"a" * (MOST_FIELD + 1) + b"\r\n--bo--"
    with pytest.raises(RequestRefused, match="longer than 64 KiB"):
        [text_of(part) for part in parts(iter([form]), b"bo")]


@pytest.mark.parametrize("written", ["multipart/form-data; boundary=bo", 'multipart/form-data; a=b; boundary="bo"'])
def test_the_boundary(written):
    assert boundary_of(written) == b"bo"


@pytest.mark.parametrize("written", ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=a"])
def test_no_boundary(written):
    with pytest.raises(RequestRefused, match="curl -F"):
        boundary_of(written)
