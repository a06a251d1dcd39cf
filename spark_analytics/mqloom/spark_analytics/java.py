"""Spark runs on Java: which one is on this machine is found out before Spark starts, for its own messages are no help.

A Java does if it is of a version that Spark runs on and is whole: some cut-down ones lack modules that Spark loads at
its start.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mqloom.core.errors import LocalError

VERSIONS: Final = (17, 21)
MODULE: Final = "jdk.incubator.vector"
"""A module that Spark's driver loads at its start; cut-down Javas lack it."""

PLACES: Final = ("/usr/lib/jvm/*", "/opt/homebrew/opt/openjdk@*", "/usr/local/opt/openjdk@*", "/opt/java/*")
"""Where systems put Javas that are not on the path."""

ANSWER_S: Final = 30.0

HINT: Final = """\
Install one of them:
  Debian, Ubuntu      apt install openjdk-17-jre-headless    (or openjdk-21-jre-headless)
  Fedora, RHEL        dnf install java-21-openjdk-headless
  Alpine              apk add openjdk17-jre-headless
  macOS               brew install openjdk@17
  Windows             winget install EclipseAdoptium.Temurin.17.JRE
or unpack one from https://adoptium.net and let JAVA_HOME name its folder."""


class JavaError(LocalError):
    """There is no Java that Spark can use; says which were found and what to install."""

    def __init__(self, found: tuple[str, ...]) -> None:
        self.found = found
        wanted = " or ".join(str(version) for version in VERSIONS)
        seen = "".join(f"\n  found {each}" for each in found) or "\n  found none"
        super().__init__(f"Spark needs Java {wanted}, and there is none that it can use:{seen}\n{HINT}")


def find_java(environment: Mapping[str, str] = os.environ, places: tuple[str, ...] = PLACES) -> Path:
    """Return the home of a Java that Spark can use; raises JavaError if there is none.

    JAVA_HOME comes first, then the path, then where systems put them.
    """
    unfit: list[str] = []
    named = environment.get("JAVA_HOME")
    if named and not _program(Path(named)).exists():
        unfit.append(f"no program {_program(Path(named))}, where JAVA_HOME says that one is")
    for home in _homes(environment, places):
        problem = _problem(home)
        if not problem:
            return home
        unfit.append(f"{home}: {problem}")
    raise JavaError(tuple(unfit))


def _homes(environment: Mapping[str, str], places: tuple[str, ...]) -> Iterator[Path]:
    seen: set[Path] = set()
    for home in _candidates(environment, places):
        if home not in seen and _program(home).exists():
            seen.add(home)
            yield home


def _candidates(environment: Mapping[str, str], places: tuple[str, ...]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]).resolve()
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in places:
        found = Path(pattern)
        yield from sorted(path.resolve() for path in found.parent.glob(found.name))


def _program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


def _problem(home: Path) -> str:
    """Say why a Java does not do, in a few words; an empty text if it does."""
    try:
        answer = subprocess.run(
            [_program(home), "--list-modules"], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be run: {error}"
    version = re.search(r"^java\.base@(\d+)", answer.stdout, re.MULTILINE)
    if version is None:
        return "older than Java 9, or no Java"
    if int(version[1]) not in VERSIONS:
        return f"Java {version[1]}"
    if not re.search(rf"^{re.escape(MODULE)}(@|$)", answer.stdout, re.MULTILINE):
        return f"Java {version[1]} without the module {MODULE}: a cut-down one, take a whole one"
    return ""
