from pathlib import Path

import pytest

from mqloom.spark_analytics.java import JavaError, find_java

MODULES = {
    "whole": "java.base@17.0.15\njdk.incubator.vector@17.0.15",
    "newer": "java.base@21.0.1\njdk.incubator.vector@21.0.1",
    "old": "java.base@11.0.2\njdk.incubator.vector@11.0.2",
    "cut down": "java.base@17.0.15\njava.logging@17.0.15",
    "none": "Unrecognized option: --list-modules",
}


def java(folder: Path, kind: str) -> Path:
    """Make a program that answers as such a Java does."""
    program = folder / kind / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '{MODULES[kind]}\\n'\n")
    program.chmod(0o755)
    return folder / kind


@pytest.mark.parametrize("kind", ["whole", "newer"])
def test_the_java_of_java_home_comes_first(tmp_path: Path, kind: str) -> None:
    home, other = java(tmp_path, kind), java(tmp_path / "other", "whole")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, ()) == home


def test_a_java_that_does_not_do_is_passed_over(tmp_path: Path) -> None:
    old, whole = java(tmp_path, "old"), java(tmp_path, "whole")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(whole / "bin")}, ()) == whole
    assert find_java({"JAVA_HOME": str(old)}, (f"{tmp_path}/w*",)) == whole


@pytest.mark.parametrize(
    ("kind", "problem"), [("old", "Java 11"), ("cut down", "without the module jdk.incubator"), ("none", "no Java")]
)
def test_without_one_it_says_what_was_found_and_what_to_install(tmp_path: Path, kind: str, problem: str) -> None:
    home = java(tmp_path, kind)
    with pytest.raises(JavaError, match="apt install openjdk-17-jre-headless") as caught:
        find_java({"JAVA_HOME": str(home)}, ())
    assert f"found {home}: " in str(caught.value)
    assert problem in str(caught.value)


def test_a_java_home_without_a_java_is_named() -> None:
    with pytest.raises(JavaError, match="found no program /nonsense/bin/java, where JAVA_HOME says"):
        find_java({"JAVA_HOME": "/nonsense", "PATH": "/nowhere"}, ())


def test_a_machine_without_any_is_told_so() -> None:
    with pytest.raises(JavaError, match="found none"):
        find_java({"PATH": "/nowhere"}, ())
