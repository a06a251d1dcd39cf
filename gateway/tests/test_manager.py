from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pluggy
import pytest

from mqloom.core.errors import PluginError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.subscription import Subscription
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Codec, CounterRecord, MatcherKind, Settings, SubscribeRequest
from mqloom.gateway.manager import LoadedPlugin, Manager, hook_arguments

REQUEST = SubscribeRequest(GatewayId("north"), ClientId("ann"), "mine", Subscription.parse("stocks/#"))
RECORD = CounterRecord(GatewayId("north"), 1.5, {"publications_in": 3})


class Failures:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def __call__(self, plugin: str, hook: str, error: Exception) -> None:
        self.told.append((plugin, hook, f"{type(error).__name__}: {error}"))


def plugin(name: str, **functions: Callable[..., object]) -> LoadedPlugin:
    module = ModuleType(name)
    for hook, function in functions.items():
        setattr(module, hook, hookimpl(function))
    return LoadedPlugin(name, f"test {name}", module)


def manager(*plugins: LoadedPlugin, settings: dict[str, Settings] | None = None) -> Manager:
    return Manager(plugins, settings or {})


def codec(name: str) -> Callable[[], Codec]:
    return lambda: Codec(name=name, decode=lambda publication: {})


def refusal(answer: object) -> Callable[[], object]:
    return lambda: answer


def test_hooks_and_their_arguments_are_those_of_the_specifications() -> None:
    assert hook_arguments() == {
        "mqloom_check": ("settings",),
        "mqloom_codec": ("settings",),
        "mqloom_matcher": ("settings",),
        "mqloom_overlay": ("settings",),
        "mqloom_adapter": ("settings",),
        "mqloom_agent": ("settings", "gateway", "load_window_s"),
        "mqloom_offload": ("settings",),
        "mqloom_admit": ("settings", "request"),
        "mqloom_admit_record": ("settings", "request"),
        "mqloom_record": ("settings", "record"),
        "mqloom_telemetry": ("settings", "gateway", "records"),
    }


def test_offers_are_found_by_name_in_the_order_of_loading() -> None:
    names = ["c", "a", "d", "b"]
    found = manager(*(plugin(f"p{name}", mqloom_codec=codec(name)) for name in names)).codecs()
    assert list(found) == names
    assert found["d"].name == "d"


def test_records_are_given_in_the_order_of_loading() -> None:
    called: list[str] = []
    plugins = [
        plugin(name, mqloom_record=lambda record, name=name: called.append(name)) for name in ("z", "a", "m", "b")
    ]
    manager(*plugins).record(RECORD, Failures())
    assert called == ["z", "a", "m", "b"]


def test_a_plugin_is_listed_with_the_hooks_it_answers() -> None:
    (listed,) = manager(plugin("both", mqloom_record=lambda: None, mqloom_codec=codec("x"))).plugins
    assert listed.hooks == ("mqloom_codec", "mqloom_record")
    assert (listed.name, listed.source) == ("both", "test both")


def test_an_object_may_be_a_plugin() -> None:
    class Plugin:
        @hookimpl
        def mqloom_admit(self, request: SubscribeRequest) -> str:
            return f"not {request.client}"

    found = manager(LoadedPlugin("object", "test", Plugin()))
    assert found.admit(REQUEST, Failures()) == "not ann"


def test_each_plugin_gets_its_own_settings_and_nobody_elses() -> None:
    seen: dict[str, object] = {}
    plugins = [
        plugin(name, mqloom_codec=lambda settings, name=name: seen.update({name: dict(settings)})) for name in "ab"
    ]
    manager(*plugins, settings={"b": {"x": 1}, "c": {"y": 2}}).codecs()
    assert seen == {"a": {}, "b": {"x": 1}}


def test_a_plugin_cannot_change_its_settings() -> None:
    def spoil(settings: dict[str, object]) -> None:
        settings["x"] = 1

    with pytest.raises(PluginError, match="does not support item assignment"):
        manager(plugin("spoiler", mqloom_codec=spoil)).codecs()


def test_a_function_may_take_any_of_the_arguments_in_any_order_and_with_defaults() -> None:
    seen: list[object] = []
    plugins = [
        plugin("none", mqloom_record=lambda: seen.append("none")),
        plugin("turned", mqloom_record=lambda record, settings: seen.append((record, dict(settings)))),
        plugin("default", mqloom_record=lambda record=None: seen.append(record)),
        plugin("named", mqloom_record=lambda *, record: seen.append(record)),
        plugin("own", mqloom_record=lambda own=7: seen.append(own)),
    ]
    failures = Failures()
    manager(*plugins).record(RECORD, failures)
    assert failures.told == []
    assert seen == ["none", (RECORD, {}), RECORD, RECORD, 7]


def test_a_plugin_that_offers_nothing_is_passed_over() -> None:
    assert manager(plugin("shy", mqloom_codec=lambda: None), plugin("x", mqloom_codec=codec("x"))).codecs().keys() == {
        "x"
    }


# ---- plugins that do not fit -------------------------------------------------------------------------------------


def problem_of(*plugins: LoadedPlugin) -> str:
    with pytest.raises(PluginError) as caught:
        manager(*plugins)
    assert caught.value.plugin == plugins[-1].name
    assert caught.value.source == plugins[-1].source
    return caught.value.problem


def test_a_hook_of_a_wrong_name_is_told_with_the_nearest() -> None:
    problem = problem_of(plugin("typo", mqloom_codek=codec("x")))
    assert problem == "there is no hook 'mqloom_codek'; did you mean 'mqloom_codec'?"


def test_an_argument_that_a_hook_does_not_give_is_told_with_the_nearest() -> None:
    problem = problem_of(plugin("typo", mqloom_record=lambda recrod: None))
    assert problem == "mqloom_record takes an argument 'recrod' that is not given to it; did you mean 'record'?"


def test_an_argument_by_position_only_is_told() -> None:
    def record(record: CounterRecord, /) -> None:
        raise AssertionError

    problem = problem_of(plugin("positional", mqloom_record=record))
    assert problem == "mqloom_record takes 'record' by position only: arguments are given by name"


def test_a_hook_that_is_not_marked_is_told() -> None:
    module = ModuleType("unmarked")
    module.mqloom_codec = codec("x")  # type: ignore[attr-defined]  # a module is what its file makes of it
    assert problem_of(LoadedPlugin("unmarked", "test", module)) == (
        "mqloom_codec is not marked: write @hookimpl above it"
    )


def test_a_module_that_answers_no_hook_is_told() -> None:
    assert problem_of(plugin("idle")).startswith("it answers no hook; mark functions with @hookimpl: mqloom_check, ")


def test_an_async_hook_is_told() -> None:
    async def record() -> None:
        raise AssertionError

    assert problem_of(plugin("later", mqloom_record=record)) == "mqloom_record is async: hooks are plain functions"


@pytest.mark.parametrize("option", ["wrapper", "hookwrapper", "tryfirst", "trylast"])
def test_wrappers_and_other_options_of_pluggy_are_told(option: str) -> None:
    module = SimpleNamespace()

    def admit():  # type: ignore[no-untyped-def]  # pluggy's wrappers have no type that says anything
        return (yield)

    module.mqloom_admit = pluggy.HookimplMarker("mqloom")(**{option: True})(admit)  # type: ignore[call-overload]  # as above
    assert problem_of(LoadedPlugin("wrapper", "test", module)) == (
        "mqloom_admit is marked with options: use `hookimpl` of mqloom.gateway.hookspecs as it is"
    )


def test_a_class_in_the_place_of_an_instance_is_told() -> None:
    class Plugin:
        @hookimpl
        def mqloom_codec(self) -> None:
            raise AssertionError

    assert problem_of(LoadedPlugin("class", "test", Plugin)) == "it is a class: give an instance of it"


def test_a_name_twice_is_told() -> None:
    assert "already registered" in problem_of(
        plugin("twin", mqloom_codec=codec("x")), plugin("twin", mqloom_codec=codec("y"))
    )


# ---- plugins that fail at the start ------------------------------------------------------------------------------


def test_a_plugin_that_raises_at_the_start_is_a_clear_error() -> None:
    def broken() -> Codec:
        raise KeyError("columns")

    with pytest.raises(PluginError) as caught:
        manager(plugin("broken", mqloom_codec=broken)).codecs()
    assert str(caught.value) == "plugin 'broken' (test broken): mqloom_codec raised KeyError: 'columns'"


def test_an_answer_of_the_wrong_kind_is_a_clear_error() -> None:
    found = manager(plugin("mixed", mqloom_codec=lambda: MatcherKind("x", build=lambda: None)))  # type: ignore[arg-type,return-value]  # wrong on purpose
    with pytest.raises(PluginError, match="mqloom_codec answered MatcherKind instead of Codec"):
        found.codecs()


@pytest.mark.parametrize("kind", ["matchers", "overlays", "adapters", "offloads"])
def test_every_kind_of_offer_is_checked(kind: str) -> None:
    hook = f"mqloom_{kind.removesuffix('s')}"
    found = manager(plugin("mixed", **{hook: lambda: "x"}))
    with pytest.raises(PluginError, match=f"{hook} answered str instead of"):
        getattr(found, kind)()


def test_one_name_offered_by_two_is_a_clear_error() -> None:
    found = manager(plugin("one", mqloom_codec=codec("x")), plugin("two", mqloom_codec=codec("x")))
    with pytest.raises(PluginError, match=r"plugin 'two'.* another plugin offers 'x' already"):
        found.codecs()


def test_agents_are_built_for_their_gateway() -> None:
    def agent(gateway: GatewayId) -> object:
        return SimpleNamespace(name=f"agent of {gateway}", handle=lambda event, now: [])

    built = manager(plugin("agents", mqloom_agent=agent)).agents(GatewayId("north"), 10.0)
    assert {name: each.name for name, each in built.items()} == {"agents": "agent of north"}


def test_two_agents_of_one_name_are_a_clear_error() -> None:
    def agent() -> object:
        return SimpleNamespace(name="same", handle=lambda event, now: [])

    found = manager(plugin("one", mqloom_agent=agent), plugin("two", mqloom_agent=agent))
    with pytest.raises(PluginError, match=r"plugin 'two'.* another plugin offers 'same' already"):
        found.agents(GatewayId("north"), 10.0)


def test_agents_that_are_not_asked_for_are_not_built_and_their_names_are_taken() -> None:
    built: list[str] = []

    def offering(name: str) -> LoadedPlugin:
        def agent() -> object:
            built.append(name)
            return SimpleNamespace(name="same", handle=lambda event, now: [])

        return plugin(name, mqloom_agent=agent)

    found = manager(offering("one"), offering("two"))
    assert found.agents(GatewayId("north"), 10.0, only=["two"]).keys() == {"two"}
    assert built == ["two"]
    with pytest.raises(PluginError, match=r"plugin 'two'.* another plugin offers 'same' already"):
        found.agents(GatewayId("north"), 10.0, only=["two"], taken=["same"])


def test_an_agent_that_cannot_be_one_is_a_clear_error() -> None:
    found = manager(plugin("agents", mqloom_agent=lambda: SimpleNamespace(name="x")))
    with pytest.raises(PluginError, match="mqloom_agent answered SimpleNamespace, without `name` and `handle`"):
        found.agents(GatewayId("north"), 10.0)


def test_mistakes_in_settings_are_told_with_their_place() -> None:
    found = manager(
        plugin("quiet", mqloom_check=lambda: ()),
        plugin("strict", mqloom_check=lambda settings: [f"{key} is wrong" for key in settings]),
        settings={"strict": {"a": 1, "b": 2}},
    )
    assert found.settings_problems() == ["plugins.settings.strict: a is wrong", "plugins.settings.strict: b is wrong"]


@pytest.mark.parametrize("answer", ["a is wrong", 3])
def test_mistakes_that_are_no_list_are_a_clear_error(answer: object) -> None:
    with pytest.raises(PluginError, match="instead of a list of texts"):
        manager(plugin("odd", mqloom_check=lambda: answer)).settings_problems()


# ---- plugins that fail while the gateway runs --------------------------------------------------------------------


def test_without_admission_plugins_everybody_is_admitted() -> None:
    assert manager().admit(REQUEST, Failures()) is None


def test_the_first_refusal_counts_and_ends_the_asking() -> None:
    def never() -> None:
        raise AssertionError

    plugins = [
        plugin("open", mqloom_admit=refusal(None)),
        plugin("shut", mqloom_admit=refusal("full")),
        plugin("never", mqloom_admit=never),
    ]
    failures = Failures()
    assert manager(*plugins).admit(REQUEST, failures) == "full"
    assert failures.told == []


def test_a_refusal_without_words_is_still_one() -> None:
    assert manager(plugin("curt", mqloom_admit=refusal(""))).admit(REQUEST, Failures()) == "refused by 'curt'"


def test_an_admission_plugin_that_raises_refuses_and_is_named() -> None:
    def broken(request: SubscribeRequest) -> None:
        raise RuntimeError("no database")

    failures = Failures()
    answer = manager(plugin("lock", mqloom_admit=broken)).admit(REQUEST, failures)
    assert answer == "admission plugin 'lock' failed: ask the operator"
    assert failures.told == [("lock", "mqloom_admit", "RuntimeError: no database")]


@pytest.mark.parametrize("answer", [True, False, 0])
def test_an_admission_plugin_that_answers_neither_text_nor_none_refuses_and_is_named(answer: object) -> None:
    failures = Failures()
    assert manager(plugin("odd", mqloom_admit=refusal(answer))).admit(REQUEST, failures) is not None
    assert [told[:2] for told in failures.told] == [("odd", "mqloom_admit")]


def test_a_sink_that_raises_is_named_and_the_others_still_get_the_record() -> None:
    seen: list[object] = []

    def broken() -> None:
        raise OSError("disk full")

    plugins = [
        plugin("before", mqloom_record=lambda record: seen.append(("before", record))),
        plugin("broken", mqloom_record=broken),
        plugin("after", mqloom_record=lambda record: seen.append(("after", record))),
    ]
    failures = Failures()
    manager(*plugins).record(RECORD, failures)
    assert seen == [("before", RECORD), ("after", RECORD)]
    assert failures.told == [("broken", "mqloom_record", "OSError: disk full")]
