import argparse
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from mqloom.core import command
from mqloom.core.command import main
from mqloom.core.errors import BrokerError

Run = Callable[[argparse.Namespace], int]


class Commands:
    """Modules made up for a test, and entry points that lead to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.entry_points: list[EntryPoint] = []

    def add(self, name: str, run: Run = lambda _: 0, doc: str = "Does something.\n\nAnd says more.") -> None:
        module = ModuleType(f"made_up_{name}", doc)

        def configure(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--count", type=int, default=1, help="how often")

        module.__dict__.update(run=run, configure=configure)
        self._monkeypatch.setitem(sys.modules, module.__name__, module)
        self.name(name, module.__name__)

    def name(self, name: str, value: str) -> None:
        self.entry_points.append(EntryPoint(name, value, command.GROUP))

    def __call__(self, *words: str) -> int:
        return main(words, commands=self.entry_points)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch)


@pytest.fixture
def without_amqtt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amqtt", None)  # importing it now raises ModuleNotFoundError


def raising(error: BaseException) -> Run:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


def test_a_command_gets_its_arguments_and_gives_the_exit_code(commands: Commands) -> None:
    commands.add("sub", lambda arguments: int(arguments.count))
    assert commands("sub", "--count", "7") == 7


def test_only_the_module_that_is_called_is_loaded(commands: Commands) -> None:
    commands.add("sub")
    commands.name("broken", "there_is_no_such_module_at_all")
    assert commands("sub") == 0


def test_help_lists_every_command_with_its_first_line_in_order(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.add("sub", doc="Subscribe by content.\n\nMore.")
    commands.add("pub", doc="Publish.")
    assert commands("--help") == 0
    printed = capsys.readouterr().out
    assert "  pub  Publish.\n  sub  Subscribe by content.\n" in printed
    assert "More." not in printed


def test_without_a_command_the_help_goes_to_stderr(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.add("sub")
    assert commands() == 2
    printed = capsys.readouterr()
    assert "sub  Does something." in printed.err
    assert printed.out == ""


def test_a_command_shows_its_own_help(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.add("sub")
    assert commands("sub", "--help") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: mqloom sub")
    assert "Does something." in printed


def test_a_usage_mistake_is_exit_code_2(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.add("sub")
    assert commands("sub", "--count", "many") == 2
    assert "mqloom sub: error: argument --count" in capsys.readouterr().err


def test_an_unknown_command_names_the_nearest_known_one(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.add("gateway")
    commands.add("sub")
    assert commands("gatway") == 2
    assert "there is no command 'gatway'; did you mean `mqloom gateway`?" in capsys.readouterr().err


def test_an_unknown_command_near_to_none_points_to_the_help(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.add("gateway")
    assert commands("xyz") == 2
    assert "`mqloom --help` lists all commands" in capsys.readouterr().err


@pytest.mark.usefixtures("without_amqtt")
def test_a_command_whose_extra_is_missing_says_what_to_install(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.name("demo", "amqtt [embedded]")
    assert commands("demo") == 2
    expected = "mqloom demo needs more than the plain install: pip install 'mqloom[embedded]'\n"
    assert capsys.readouterr().err == expected


@pytest.mark.usefixtures("without_amqtt")
def test_help_lists_a_command_whose_extra_is_missing(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.name("demo", "amqtt [embedded]")
    commands.add("sub")
    assert commands("--help") == 0
    printed = capsys.readouterr().out
    assert "demo  (needs pip install 'mqloom[embedded]')" in printed
    assert "sub   Does something." in printed


@pytest.mark.usefixtures("without_amqtt")
def test_without_an_extra_in_the_entry_point_the_metadata_tells_which_one_brings_the_module(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = ["msgspec>=0.18", "pluggy>=1.5; extra == 'gateway'", 'amqtt<0.13,>=0.11.3; extra == "embedded"']
    monkeypatch.setattr("importlib.metadata.requires", lambda _: requirements)
    commands.name("demo", "amqtt")
    assert commands("demo") == 2
    assert "mqloom[embedded]" in capsys.readouterr().err


def test_a_missing_module_of_no_extra_is_named(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda _: None)
    commands.name("demo", "there_is_no_such_module_at_all")
    assert commands("demo") == 2
    assert "'there_is_no_such_module_at_all' is not installed" in capsys.readouterr().err


def test_a_missing_module_of_our_own_is_a_bug_and_not_hidden(commands: Commands) -> None:
    commands.name("demo", "mqloom.core.there_is_no_such_module")
    with pytest.raises(ModuleNotFoundError):
        commands("demo")


def test_help_survives_a_module_that_is_broken(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.name("demo", "mqloom.core.there_is_no_such_module")
    commands.add("sub")
    assert commands("--help") == 0
    printed = capsys.readouterr().out
    assert "demo  (cannot be loaded: ModuleNotFoundError" in printed
    assert "sub   Does something." in printed


def test_an_error_of_ours_is_one_message_and_exit_code_1(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.add("sub", raising(BrokerError("localhost:1883", "nobody listens there")))
    assert commands("sub") == 1
    printed = capsys.readouterr()
    assert printed.err == "mqloom sub: broker at localhost:1883: nobody listens there\n"
    assert printed.out == ""


def test_a_bug_is_not_taken_for_an_error_of_ours(commands: Commands) -> None:
    commands.add("sub", raising(KeyError("a bug")))
    with pytest.raises(KeyError):
        commands("sub")


def test_an_interrupt_ends_quietly(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    commands.add("sub", raising(KeyboardInterrupt()))
    assert commands("sub") == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_who_has_gone_ends_it_quietly(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[bool] = []
    monkeypatch.setattr(command, "_give_up_stdout", lambda: given_up.append(True))
    commands.add("sub", raising(BrokenPipeError()))
    assert commands("sub") == 141
    assert given_up == [True]
    assert capsys.readouterr() == ("", "")


def test_the_version_is_that_of_the_distribution(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"mqloom": "1.2.3"}[name])
    assert commands("--version") == 0
    assert capsys.readouterr().out == "mqloom 1.2.3\n"


def test_of_two_entry_points_of_one_name_the_choice_does_not_depend_on_their_order(commands: Commands) -> None:
    commands.add("sub", lambda _: 3)
    commands.name("sub", "zzz_later_in_the_alphabet")
    assert commands("sub") == 3
    commands.entry_points.reverse()
    assert commands("sub") == 3
