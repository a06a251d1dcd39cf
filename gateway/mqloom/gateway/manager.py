"""The typed face of the hooks: one method for each, and nobody else touches pluggy's relay.

Implementations are called one by one, because pluggy ends the whole call when one raises. One that raises while
the gateway is being put together is a clear error; one that raises later is counted, named in the log, and passed over.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

import pluggy

from mqloom.core.errors import PluginError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import Record
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.hookspecs import PROJECT, HookSpecs
from mqloom.gateway.interfaces import (
    AdapterKind,
    Codec,
    CounterRecord,
    MatcherKind,
    OverlayKind,
    RecordRequest,
    Settings,
    SubscribeRequest,
)
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.gateway.tables import nearest

OnFailure = Callable[[str, str, Exception], None]
"""Told of a plugin that raised: its name, the hook, the exception."""


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin, where it came from, and which hooks it answers; the manager fills in the last."""

    name: str
    source: str
    module: object
    hooks: tuple[str, ...] = ()


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Offer = TypeVar("Offer", bound=_Named)


def hook_arguments() -> dict[str, tuple[str, ...]]:
    """Return what each hook gives to its implementations, in the order of hookspecs.py."""
    return {
        name: tuple(inspect.signature(spec).parameters)[1:]
        for name, spec in vars(HookSpecs).items()
        if name.startswith(f"{PROJECT}_") and inspect.isfunction(spec)
    }


class Manager:
    """The plugins of one gateway, called in the order given here. Passed in where it is needed, never global.

    Raises PluginError for a plugin that does not fit the hooks.
    """

    def __init__(self, plugins: Sequence[LoadedPlugin], settings: Mapping[str, Settings]) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(HookSpecs)
        self._settings = {plugin.name: MappingProxyType(dict(settings.get(plugin.name, {}))) for plugin in plugins}
        self._taken: dict[str, Mapping[str, Sequence[str]]] = {}
        self.plugins = tuple(self._register(plugin) for plugin in plugins)

    def _register(self, plugin: LoadedPlugin) -> LoadedPlugin:
        try:
            taken = _taken_arguments(plugin.module)
            self._manager.register(plugin.module, plugin.name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            raise PluginError(plugin.name, plugin.source, str(error)) from error
        self._taken[plugin.name] = taken
        return replace(plugin, hooks=tuple(taken))

    def settings_problems(self) -> list[str]:
        """Return what plugins find wrong with their settings, each with its place in the configuration."""
        problems: list[str] = []
        for plugin, found in self._ask("mqloom_check"):
            if isinstance(found, str) or not isinstance(found, Sequence):
                raise self._wrong(plugin, f"mqloom_check answered {type(found).__name__} instead of a list of texts")
            problems += [f"plugins.settings.{plugin}: {problem}" for problem in found]
        return problems

    def codecs(self) -> dict[str, Codec]:
        """Return every codec offered, by name."""
        return self._named("mqloom_codec", Codec)

    def matchers(self) -> dict[str, MatcherKind]:
        """Return every matcher offered, by name."""
        return self._named("mqloom_matcher", MatcherKind)

    def overlays(self) -> dict[str, OverlayKind]:
        """Return every overlay offered, by name."""
        return self._named("mqloom_overlay", OverlayKind)

    def adapters(self) -> dict[str, AdapterKind]:
        """Return every broker adapter offered, by name."""
        return self._named("mqloom_adapter", AdapterKind)

    def agents(
        self,
        gateway: GatewayId,
        load_window_s: float,
        *,
        only: Collection[str] | None = None,
        taken: Collection[str] = (),
    ) -> dict[str, Agent]:
        """Return the agents for a gateway, whose load is measured so often, by the names of their plugins.

        `only` names the plugins that are asked, else all are; `taken` are names of agents that there are already.
        """
        agents: dict[str, Agent] = {}
        for plugin, offer in self._ask("mqloom_agent", only, gateway=gateway, load_window_s=load_window_s):
            agent = self._agent(plugin, offer)
            if agent.name in {*taken, *(other.name for other in agents.values())}:
                raise self._wrong(plugin, f"mqloom_agent: another plugin offers {agent.name!r} already")
            agents[plugin] = agent
        return agents

    def offloads(self) -> dict[str, OffloadKind]:
        """Return every way to choose whom to move that is offered, by name."""
        return self._named("mqloom_offload", OffloadKind)

    def admit(self, request: SubscribeRequest, on_failure: OnFailure) -> str | None:
        """Return why a subscription is refused, or None; a plugin that fails refuses."""
        return self._refusal("mqloom_admit", self._calls("mqloom_admit", request=request), on_failure)

    def admit_record(self, request: RecordRequest, on_failure: OnFailure) -> str | None:
        """Return why a record is refused, or None; a plugin that fails refuses."""
        return self._refusal("mqloom_admit_record", self._calls("mqloom_admit_record", request=request), on_failure)

    def _refusal(
        self, hook: str, calls: Iterable[tuple[str, Callable[[], object]]], on_failure: OnFailure
    ) -> str | None:
        for plugin, call in calls:
            try:
                answer = call()
                if not (answer is None or isinstance(answer, str)):
                    raise TypeError(f"answered {type(answer).__name__} instead of text or None")
            except Exception as error:
                on_failure(plugin, hook, error)
                return f"admission plugin {plugin!r} failed: ask the operator"
            if answer is not None:
                return answer or f"refused by {plugin!r}"
        return None

    def record(self, record: CounterRecord, on_failure: OnFailure) -> None:
        """Give a record to every sink."""
        self._tell("mqloom_record", on_failure, record=record)

    def telemetry(self, gateway: GatewayId, records: Sequence[Record], on_failure: OnFailure) -> None:
        """Give typed records to every sink."""
        self._tell("mqloom_telemetry", on_failure, gateway=gateway, records=records)

    def _tell(self, hook: str, on_failure: OnFailure, **arguments: object) -> None:
        for plugin, call in self._calls(hook, **arguments):
            try:
                call()
            except Exception as error:
                on_failure(plugin, hook, error)

    def _named(self, hook: str, kind: type[Offer]) -> dict[str, Offer]:
        offers: dict[str, Offer] = {}
        for plugin, offer in self._ask(hook):
            if not isinstance(offer, kind):
                raise self._wrong(plugin, f"{hook} answered {type(offer).__name__} instead of {kind.__name__}")
            if offer.name in offers:
                raise self._wrong(plugin, f"{hook}: another plugin offers {offer.name!r} already")
            offers[offer.name] = offer
        return offers

    def _agent(self, plugin: str, offer: object) -> Agent:
        name, handle = getattr(offer, "name", None), getattr(offer, "handle", None)
        if not isinstance(name, str) or not callable(handle):
            raise self._wrong(plugin, f"mqloom_agent answered {type(offer).__name__}, without `name` and `handle`")
        return cast("Agent", offer)

    def _ask(self, hook: str, only: Collection[str] | None = None, **arguments: object) -> Iterator[tuple[str, object]]:
        """Call a hook of the start, of all plugins or these only; whatever raises there is a start-up error."""
        for plugin, call in self._calls(hook, **arguments):
            if only is not None and plugin not in only:
                continue
            try:
                offer = call()
            except Exception as error:
                raise self._wrong(plugin, f"{hook} raised {type(error).__name__}: {error}") from error
            if offer is not None:
                yield plugin, offer

    def _calls(self, hook: str, **arguments: object) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield each implementation with its arguments bound, in the order in which the plugins were loaded."""
        # pluggy would call its list from the end; read from the front it is in the order of registration.
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            plugin = implementation.plugin_name
            available = {"settings": self._settings[plugin], **arguments}
            taken = {name: available[name] for name in self._taken[plugin][hook]}
            yield plugin, partial(implementation.function, **taken)

    def _wrong(self, plugin: str, problem: str) -> PluginError:
        source = next(each.source for each in self.plugins if each.name == plugin)
        return PluginError(plugin, source, problem)


def _taken_arguments(module: object) -> dict[str, tuple[str, ...]]:
    """Return the hooks that a plugin answers, and which of their arguments it takes.

    Raises ValueError, with what to do, for anything that does not fit.
    """
    if inspect.isclass(module):
        raise ValueError("it is a class: give an instance of it")
    specs = hook_arguments()
    taken: dict[str, tuple[str, ...]] = {}
    for name in dir(module):
        function = getattr(module, name)
        options = getattr(function, f"{PROJECT}_impl", None)
        if not inspect.isroutine(function) or (options is None and name not in specs):
            continue
        if name not in specs:
            raise ValueError(f"there is no hook {name!r}; {nearest(name, specs)}")
        if options is None:
            raise ValueError(f"{name} is not marked: write @hookimpl above it")
        if any(options.values()):
            raise ValueError(f"{name} is marked with options: use `hookimpl` of mqloom.gateway.hookspecs as it is")
        taken[name] = _taken_by(name, function, specs[name])
    if not taken:
        raise ValueError(f"it answers no hook; mark functions with @hookimpl: {', '.join(specs)}")
    return {name: taken[name] for name in specs if name in taken}


def _taken_by(hook: str, function: Callable[..., object], given: Sequence[str]) -> tuple[str, ...]:
    if inspect.iscoroutinefunction(function):
        raise ValueError(f"{hook} is async: hooks are plain functions")
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ValueError(f"{hook} takes {name!r} by position only: arguments are given by name")
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name not in given and parameter.default is parameter.empty and not variadic:
            raise ValueError(f"{hook} takes an argument {name!r} that is not given to it; {nearest(name, given)}")
    return tuple(name for name in given if name in parameters)
