"""A client's memory on disk: read when the client connects, appended to whenever its program has taken a publication.

The order of things is: the program's callback has returned (or it has acknowledged), the note is written, the broker is
acknowledged. So whatever the broker still has, and the program was given, is noted, but for the one in whose callback
the process died. A note is handed to the operating system, which keeps it when the process dies; it is forced to the
disk only when the file is written anew, so that a machine that fails can lose the last of them.

Whoever cannot write its notes goes on without: it is counted, logged, and tried again after MEMORY_AGAIN_S.
"""

import contextlib
import hashlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import Final

from mqloom.client.limits import MEMORY_AGAIN_S, MEMORY_BYTES_MAX, MEMORY_LOG_BYTES_MAX
from mqloom.client.memory import UnreadableError, beginning, frame, new_seen, read, remember, taken_of
from mqloom.core.errors import LocalError
from mqloom.core.ids import ClientId
from mqloom.core.publication import Publication
from mqloom.core.seen import Seen
from mqloom.core.topics import encode_id

logger: Final = logging.getLogger("mqloom.client")

NAME_LENGTH_MAX: Final = 150
"""Characters of a client's name in that of its file; longer ones are told apart by a digest."""


def file_of(folder: Path, client: ClientId) -> Path:
    """Return where the memory of a client is."""
    name = encode_id(client)
    if len(name) > NAME_LENGTH_MAX:
        digest = hashlib.blake2b(client.encode(), digest_size=8).hexdigest()
        name = f"{name[:NAME_LENGTH_MAX]}-{digest}"
    return folder / f"{name}.seen"


class MemoryFile:
    """The memory of one client; at any time one process has it."""

    def __init__(self, folder: Path, client: ClientId) -> None:
        self.path = file_of(folder, client)
        self.faults = 0
        """The times when it could not be read, or written."""
        self._client = client
        self._taken = new_seen()
        self._descriptor: int | None = None
        self._log_bytes = 0
        self._again_at = 0.0
        self._lock = threading.Lock()

    def open(self) -> Seen:
        """Return what earlier lives have taken, and begin to write; raises LocalError if that cannot be.

        A file that is not ours is left alone. One that is damaged from its beginning on is set aside, under its name
        with `.damaged` behind it, and a new one begun; if only its end is, the rest counts.
        """
        with self._lock:
            self._taken, seen = new_seen(), new_seen()
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._read(seen)
                self._write_anew()
            except OSError as error:
                raise LocalError(f"{self.path}: the memory of client {self._client!r}: {error}") from error
            return seen

    def note(self, publication: Publication, *, low_water: int | None) -> None:
        """The program has taken this one."""
        taken = taken_of(publication, low_water=low_water)
        with self._lock:
            remember(self._taken, taken)
            if self._descriptor is None or self._log_bytes > MEMORY_LOG_BYTES_MAX:
                self._begin_again()
                return
            data = frame(taken)
            try:
                if os.write(self._descriptor, data) != len(data):
                    raise OSError("there is no room for all of it")
                self._log_bytes += len(data)
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """Let another process have it; what is noted later begins again."""
        with self._lock:
            self._shut()

    def _read(self, seen: Seen) -> None:
        if not self.path.exists():
            return
        if self.path.stat().st_size > MEMORY_BYTES_MAX:
            self._set_aside(f"has more than {MEMORY_BYTES_MAX} bytes")
            return
        try:
            lost = read(self.path.read_bytes(), self._client, seen, self._taken)
        except UnreadableError as error:
            self._set_aside(str(error))
        except ValueError as error:
            hint = "name another state_folder, or move the file away"
            raise LocalError(f"{self.path}: the memory of client {self._client!r}: the file {error}; {hint}") from None
        else:
            if lost:
                logger.warning("%s: the last %d bytes are torn: what they told may come again", self.path, lost)

    def _set_aside(self, problem: str) -> None:
        aside = self.path.with_name(self.path.name + ".damaged")
        self.path.replace(aside)
        self.faults += 1
        logger.error(
            "%s: %s: it is %s now, and what earlier lives have taken may come again", self.path, problem, aside
        )

    def _begin_again(self) -> None:
        """Write the whole file, which has the last note, too; unless that has failed just now."""
        if time.monotonic() < self._again_at:
            return
        try:
            self._write_anew()
        except OSError as error:
            self._fail(error)

    def _write_anew(self) -> None:
        self._shut()
        fresh = self.path.with_name(self.path.name + ".new")
        with fresh.open("wb") as file:
            file.write(beginning(self._client, self._taken))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        _sync(self.path.parent)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        self._log_bytes = 0

    def _fail(self, error: OSError) -> None:
        self._shut()
        self.faults += 1
        self._again_at = time.monotonic() + MEMORY_AGAIN_S
        logger.error(
            "%s: not written (%s): if the program died now, what it has taken may come again; trying again in %g s",
            self.path,
            error,
            MEMORY_AGAIN_S,
        )

    def _shut(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _sync(folder: Path) -> None:
    """Let the disk know a new name, where folders can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
