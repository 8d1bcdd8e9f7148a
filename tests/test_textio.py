"""Text files survive a round trip, and errors name the line."""

import gzip
import io
import lzma
import os
import sys
from pathlib import Path

import pytest

from linda.errors import LindaError
from linda.files import textio
from linda.files.textio import atomic_writer, open_text

TEXT = "first\nzweite Zeile: größer\n第三 🦋\n"


def read(path: str | Path) -> list[str]:
    with open_text(path) as lines:
        return list(lines)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl.xz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    with atomic_writer(tmp_path / name) as out:
        out.write(TEXT)
    assert read(tmp_path / name) == TEXT.splitlines(keepends=True)


def test_suffix_decides_the_compression(tmp_path: Path) -> None:
    for name in ("a.gz", "a.xz"):
        with atomic_writer(tmp_path / name) as out:
            out.write(TEXT)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).decode() == TEXT
    assert lzma.decompress((tmp_path / "a.xz").read_bytes()).decode() == TEXT


def test_equal_texts_make_equal_compressed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, time in (("a.gz", 1e9), ("b.gz", 1.1e9)):
        monkeypatch.setattr("time.time", lambda time=time: time)
        with atomic_writer(tmp_path / name) as out:
            out.write(TEXT)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert "".join(read("-")) == TEXT
    assert not sys.stdin.buffer.closed


def test_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,b\n\xef\xbb\xbf1,2\n")
    assert read(tmp_path / "a.csv") == ["a,b\n", "\ufeff1,2\n"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_not_utf8_names_file_and_line(tmp_path: Path, compress) -> None:
    path = tmp_path / ("a.gz" if compress is gzip.compress else "a.txt")
    path.write_bytes(compress("größer\n".encode() * 2 + "größer\n".encode("latin-1")))
    with pytest.raises(LindaError, match=rf"{path.name}, line 3: not UTF-8 \(byte 0xf6 at position 3\)"):
        read(path)


def test_rows_before_the_bad_line_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n\xff\n")
    with open_text(tmp_path / "a.txt") as lines:
        assert next(lines) == "good\n"


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textio, "MAX_LINE_BYTES", 8)
    (tmp_path / "a.txt").write_text("12345678\n")
    with pytest.raises(LindaError, match=r"a\.txt, line 1: longer than"):
        read(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("1234567\n")
    assert read(tmp_path / "a.txt") == ["1234567\n"]


def test_missing_file_folder_and_damage_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
    (tmp_path / "fake.gz").write_text(TEXT)
    (tmp_path / "fake.xz").write_text(TEXT)
    for name, words in [
        ("none.txt", "no such file"),
        ("", "is a folder"),
        ("cut.gz", "damaged"),
        ("fake.gz", "damaged"),
        ("fake.xz", "damaged"),
    ]:
        with pytest.raises(LindaError, match=words) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_broken_off_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old")

    def write_half() -> None:
        with atomic_writer(target) as out:
            out.write("half")
            out.flush()
            assert target.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert target.read_text() == "old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_writer(tmp_path / "link") as out:
        out.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_writer(pipe) as out:
        out.write("new")
    assert os.read(reader, 10) == b"new"
    assert pipe.is_fifo()
    os.close(reader)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    for path, words in [(tmp_path, "is a folder"), (tmp_path / "no" / "out.txt", "does not exist")]:
        with pytest.raises(LindaError, match=words), atomic_writer(path):
            pass
