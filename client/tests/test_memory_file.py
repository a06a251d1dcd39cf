"""A memory on a real disk: read, appended to, written anew; and disks and files that are not as they should be."""

import logging
import os
from pathlib import Path

import pytest

from mqloom.client import memory_file
from mqloom.client.limits import MEMORY_BYTES_MAX
from mqloom.client.memory_file import MemoryFile, file_of
from mqloom.core.errors import LocalError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Publication
from mqloom.core.seen import Seen

ME = ClientId("me")


def publication(sequence: int) -> Publication:
    return Publication(GatewayId("A"), 1, sequence, 0, 0, "t", b"p", 1, packet=1 + sequence % 1_000)


def known(seen: Seen, sequences: range) -> list[int]:
    return [each for each in sequences if seen.earlier(publication(each)) is not None]


def life(folder: Path, *sequences: int) -> Seen:
    """Live once: take these, and die without a word; return what was known at the beginning."""
    memory = MemoryFile(folder, ME)
    seen = memory.open()
    for each in sequences:
        memory.note(publication(each), low_water=0)
    return seen


def test_each_life_knows_what_all_before_have_taken(tmp_path: Path) -> None:
    assert known(life(tmp_path / "made", 1, 2), range(10)) == []
    assert known(life(tmp_path / "made", 5), range(10)) == [1, 2]
    assert known(life(tmp_path / "made"), range(10)) == [1, 2, 5]


def test_a_file_that_grows_is_written_anew_and_is_as_large_as_what_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_file, "MEMORY_LOG_BYTES_MAX", 2_000)
    memory = MemoryFile(tmp_path, ME)
    memory.open()
    for sequence in range(2_000):
        memory.note(publication(sequence), low_water=max(0, sequence - 10))
        assert memory.path.stat().st_size < 5_000
    assert known(life(tmp_path), range(1_980, 2_010)) == list(range(1_980, 2_000))
    assert [each.name for each in tmp_path.iterdir()] == ["me.seen"]


def test_closed_it_begins_again_with_the_next_note(tmp_path: Path) -> None:
    memory = MemoryFile(tmp_path, ME)
    memory.open()
    memory.note(publication(1), low_water=0)
    memory.close()
    memory.note(publication(2), low_water=0)
    assert known(life(tmp_path), range(5)) == [1, 2]


def test_a_torn_end_is_left_out_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    life(tmp_path, 1, 2)
    path = file_of(tmp_path, ME)
    os.truncate(path, path.stat().st_size - 3)
    assert known(life(tmp_path, 3), range(5)) == [1]
    assert "are torn: what they told may come again" in caplog.text
    assert known(life(tmp_path), range(5)) == [1, 3]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_file_that_is_damaged_from_its_beginning_is_set_aside_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_large: bool
) -> None:
    life(tmp_path, 1)
    path = file_of(tmp_path, ME)
    os.truncate(path, MEMORY_BYTES_MAX + 1 if is_large else 40)
    memory = MemoryFile(tmp_path, ME)
    assert known(memory.open(), range(5)) == []
    assert memory.faults == 1
    assert path.with_name("me.seen.damaged").exists()
    assert "may come again" in caplog.text
    memory.note(publication(7), low_water=0)
    assert known(life(tmp_path), range(9)) == [7]


def test_a_file_that_is_not_ours_is_left_alone_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    path = file_of(tmp_path, ME)
    path.write_text("a poem")
    with pytest.raises(LocalError, match=r"me.seen: .* is not a memory .* name another state_folder"):
        MemoryFile(tmp_path, ME).open()
    assert path.read_text() == "a poem"


def test_a_folder_that_cannot_be_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match="the memory of client 'me'"):
        MemoryFile(tmp_path / "file", ME).open()


def test_a_disk_that_takes_nothing_more_is_counted_and_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MemoryFile(tmp_path, ME)
    memory.open()
    memory.note(publication(1), low_water=0)
    full = os.open("/dev/full", os.O_WRONLY)
    assert memory._descriptor is not None
    os.dup2(full, memory._descriptor)
    os.close(full)
    with caplog.at_level(logging.ERROR, "mqloom.client"):
        for sequence in (2, 3, 4):
            memory.note(publication(sequence), low_water=0)
    assert memory.faults == 1
    assert caplog.text.count("not written") == 1
    monkeypatch.setattr(memory_file, "MEMORY_AGAIN_S", 0.0)
    memory._again_at = 0.0
    memory.note(publication(5), low_water=0)
    assert known(life(tmp_path), range(9)) == [1, 2, 3, 4, 5]


def test_every_client_has_a_file_of_its_own_whatever_its_name(tmp_path: Path) -> None:
    names = ["a", "a/b", "..", "ä" * 200, "ä" * 199 + "b", "x" * 255]
    files = {file_of(tmp_path, ClientId(name)) for name in names}
    assert len(files) == len(names)
    for path in files:
        assert path.parent == tmp_path
        assert len(path.name) < 240
        path.touch()
