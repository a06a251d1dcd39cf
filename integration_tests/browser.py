"""A headless Chromium that opens one page, and tells what it asked for, what it complained of, and what one reads."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPEN_S_MAX = 120.0
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves this machine
)


@dataclass(frozen=True)
class Opened:
    """What came of opening a page."""

    text: str
    """All of its text, after scripts have run."""
    requests: list[str]
    """Every address that it asked for; what the browser asks for by itself is not the page's."""
    console: list[str]
    """What the console says."""


def chromium_or_skip() -> str:
    """Return the program; where there is none the test is skipped, and says so."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return found


def open_page(page: Path, folder: Path, picture: Path | None = None) -> Opened:
    """Open a file and return what came of it; with `picture`, it is drawn into that."""
    program, log = chromium_or_skip(), folder / "net.json"
    arguments = [*QUIET, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr"]
    more = [f"--screenshot={picture}", "--window-size=1200,2400"] if picture else ["--dump-dom"]
    done = subprocess.run(
        [program, *arguments, *more, page.resolve().as_uri()],
        capture_output=True,
        timeout=OPEN_S_MAX,
        check=False,
        env=os.environ | {"HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr.decode()[-3_000:]
    console = [line for line in done.stderr.decode(errors="replace").splitlines() if ":CONSOLE" in line]
    return Opened(_text(done.stdout.decode()), _requests(log), console)


def _text(dom: str) -> str:
    without = re.sub(r"<(style|script)\b.*?</\1>", " ", dom, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without)).split())


def _requests(log: Path) -> list[str]:
    """Return the addresses in Chromium's log of its network that some page has asked for.

    Chromium's own, such as whether there is a newer one, have no origin.
    """
    found = set()
    for line in log.read_text(errors="replace").splitlines():  # an event each
        origin = re.search(r'"initiator":"((?:[^"\\]|\\.)*)"', line)
        url = re.search(r'"url":"((?:[^"\\]|\\.)*)"', line)
        if origin and url and origin[1] != "not an origin":
            found.add(str(json.loads(f'"{url[1]}"')))
    return sorted(found)
