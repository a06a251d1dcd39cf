"""What a core counts and tells while it handles an event; the node hands the telling on as effects."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal, ParamSpec, TypeVar

from mqloom.core.counters import Counters
from mqloom.core.effects import Effect, Log

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class PluginFailed(Exception):  # noqa: N818 - an event between guard and caller, never seen by a user
    """A guarded call raised; it has been counted and told already."""


class Journal:
    """The counters of one gateway, and the log lines of the event at hand."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self._effects: list[Effect] = []
        self._aside: tuple[str, list[str]] | None = None

    @contextlib.contextmanager
    def setting_aside(self, counter: str) -> Iterator[list[str]]:
        """Have refusals of a counter neither counted nor logged meanwhile, but written into the list, for who asked."""
        noted: list[str] = []
        self._aside = (counter, noted)
        try:
            yield noted
        finally:
            self._aside = None

    def tell(self, level: Literal["info", "warning", "error"], text: str) -> None:
        """Have a line logged."""
        self._effects.append(Log(level=level, text=text))

    def refuse(self, counter: str, reason: str, text: str, amount: int = 1) -> None:
        """Count a refusal, and log it the 1st, 2nd, 4th, 8th... time: a flood must not fill the log."""
        if self._aside is not None and self._aside[0] == counter:
            self._aside[1].append(f"{reason}: {text}")
            return
        before = self.counters.value(counter, reason)
        self.counters.add(counter, reason, amount)
        count = before + amount
        if count.bit_length() > before.bit_length():
            self.tell("warning", f"{counter} ({reason}, {count} so far): {text}")

    def guard(
        self, plugin: str, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call into a plugin; whatever it raises is counted under its name, logged, and becomes PluginFailed."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self.failed(plugin, error)
            raise PluginFailed(plugin) from error

    def failed(self, plugin: str, error: Exception) -> None:
        """Count and log what a plugin raised."""
        self.refuse("plugin_failures", plugin, f"plugin {plugin} raised {type(error).__name__}: {error}")

    def drain(self) -> list[Effect]:
        """Return the log lines since the last call."""
        effects, self._effects = self._effects, []
        return effects
