"""Balance recorded load again, with other settings: what would have come of it."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from mqloom.core.errors import ConfigurationError
from mqloom.lab.progress import progress_bar

ADVISE: Final = {"mode": "advise"}
"""By these settings nobody is moved."""


DAY_S: Final = 86_400.0


def _day(text: str) -> float:
    """Return when a day begins, in Unix time."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day: it should look like 2026-11-18") from None


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("spool", type=Path, metavar="SPOOL", help="a folder that `mqloom collect` has written")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another setting of the load agents, as in [plugins.settings.balance]; may be given several times",
    )
    parser.add_argument("--day", type=_day, metavar="DAY", help="of a long recording one day, in UTC: 2026-11-18")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed: the same figures; 1")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Replay; raises SpoolError, ReplayError, and ConfigurationError for settings that do not fit."""
    from mqloom.agents.settings import settings_problems  # noqa: PLC0415 - `--help` need not load it
    from mqloom.lab.padres_play import play  # noqa: PLC0415 - as above
    from mqloom.lab.replay_model import replay_of  # noqa: PLC0415 - as above
    from mqloom.lab.replay_recording import ALWAYS, Span, read_recording  # noqa: PLC0415 - as above
    from mqloom.lab.replay_view import Compared, played_figures, recorded_figures, view  # noqa: PLC0415 - as above

    span = ALWAYS if arguments.day is None else Span(arguments.day, arguments.day + DAY_S)
    with progress_bar("replay") as tell:
        recording = read_recording(arguments.spool, lambda share, text: tell(share / 3, text), span)
        settings = {**recording.balance, "window_s": recording.window_s, "mode": "on", **changes_of(arguments.set)}
        problems = settings_problems(settings)
        if problems:
            raise ConfigurationError("--set", tuple(problems))
        replay = replay_of(recording)
        unmoved = play(
            replay.setup,
            arguments.seed,
            lambda share, text: tell((1 + share) / 3, f"nobody moved: {text}"),
            {**settings, **ADVISE},
            workload=replay.workload,
        )
        replayed = play(
            replay.setup,
            arguments.seed,
            lambda share, text: tell((2 + share) / 3, f"replayed: {text}"),
            settings,
            workload=replay.workload,
        )
    rows = [
        Compared(
            broker=edge,
            recorded=recorded_figures(recording.gateways[edge]),
            unmoved=played_figures(unmoved, edge),
            replayed=played_figures(replayed, edge),
            subscribers=replayed.subscribers(edge),
        )
        for edge in replay.setup.edges
    ]
    moved = sum(session.ordered for session in replayed.sessions)
    sessions, ledger = len(replayed.sessions), replayed.ledger
    if arguments.json:
        answer = {
            "settings": settings,
            "seconds": replay.setup.length_s,
            "brokers": [asdict(row) for row in rows],
            "sessions": sessions,
            "moved": moved,
            "published": replayed.published,
            "lost": ledger.lost,
            "notes": list(replay.notes),
        }
        print(json.dumps(answer))  # noqa: T201 - a command's answer
    else:
        told = ", ".join(f"{key}={value}" for key, value in changes_of(arguments.set).items())
        told = told or ("the recorded settings" if recording.is_balance_known else "the settings by default")
        Console(highlight=False).print(view(rows, sessions, moved, told, replay.notes))
    return 0


def changes_of(words: Sequence[str]) -> Mapping[str, object]:
    """Return settings from KEY=VALUE; raises ConfigurationError. Numbers, true and lists are read as JSON has them."""
    found: dict[str, object] = {}
    for word in words:
        key, sign, text = word.partition("=")
        if not sign or not key:
            raise ConfigurationError("--set", (f"{word!r} is not KEY=VALUE, such as local_ratio=0.2",))
        try:
            found[key.strip()] = json.loads(text)
        except ValueError:
            found[key.strip()] = text.strip()
    return found
