"""Plans with a mistake are refused with a sentence: what, where, what to do."""

from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from mqloom.core.command import main
from mqloom.lab import faults
from mqloom.lab.node_builders import build_node
from mqloom.lab.plan import FaultPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.plan_checks import PlanError
from mqloom.lab.world import Options, World

PLAN = Plan(
    seed=1,
    gateways=("A", "B", "C"),
    links=(("A", "B"), ("B", "C")),
    publishers={"exchange": "A"},
    subscribers=(SubscriberPlan(name="eve", gateway="C", wishes={"all": ("stocks/#", "")}),),
    publications=(PublicationPlan(at=5.0, publisher="exchange", number=1, topic="stocks/a", attributes={}),),
)


def problem_of(plan: Plan, options: Options | None = None) -> str:
    with pytest.raises(PlanError) as caught:
        faults.schedule(World(plan, options))
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def with_fault(kind: str, *target: str, at: float = 10.0) -> Plan:
    return structs.replace(PLAN, faults=(FaultPlan(kind=kind, at=at, lasts_s=5.0, target=target),))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"links": (("A", "B"), ("B", "D"))}, "links[1]: 'D' is not among the gateways; there are: A, B, C"),
        ({"publishers": {"exchange": "a"}}, "publisher 'exchange': 'a' is not among the gateways; there are: A, B, C"),
        ({"subscribers": (SubscriberPlan(name="eve", gateway="D", wishes={}),)}, "subscriber 'eve': 'D' is not among"),
        ({"publishers": {"exchagne": "A"}}, "publications: 'exchange' is not among the publishers; did you mean 'exch"),
        ({"publications": PLAN.publications * 2}, "publications: 2 have the number 1; each needs its own"),
        ({"publishers": {"exchange": "A", "eve": "B"}}, "'eve' is the name of 2"),
        ({"gateways": ("A", "B", "C", "eve")}, "'eve' is the name of 2"),
        ({"links": (("A", "B"), ("B", "C"), ("C", "C"))}, "links[2]: 'C' cannot be linked to itself"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(change: dict[str, object], problem: str) -> None:
    assert problem_of(structs.replace(PLAN, **change)).startswith(problem)


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (with_fault("link-cutt", "A", "B"), "there is no such kind; did you mean 'link-cut'?"),
        (with_fault("earthquake", "A"), "there is no such kind; there are: gateway-crash, link-cut,"),
        (with_fault("link-cut", "B"), 'it befalls a link: its target looks like ("A", "B"), both ends of a link'),
        (with_fault("gateway-crash", "A", "B"), 'it befalls a gateway: its target looks like ("A",), the name of a'),
        (with_fault("link-cut", "A", "D"), "it befalls a link, and 'D' is none of the gateways; there are: A, B, C"),
        (with_fault("gateway-crash", "eve"), "it befalls a gateway, and 'eve' is none of the gateways"),
        (with_fault("client-vanishes", "eva"), "it befalls a subscriber, and 'eva' is none of the subscribers; did"),
        (with_fault("publisher-cut", "A"), "it befalls a publisher, and 'A' is none of the publishers; there are: ex"),
        (with_fault("link-cut", "A", "C"), "there is no link between the two, so nothing would happen; links are: A B"),
        (with_fault("link-cut", "A", "B", at=-1.0), "`at` and `lasts_s` are seconds, 0 or more"),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(plan: Plan, problem: str) -> None:
    fault = plan.faults[0]
    assert problem_of(plan).startswith(f"faults[0] ({fault.kind!r}, target {fault.target!r}): {problem}")


def test_a_target_that_is_one_text_is_none() -> None:
    fault = FaultPlan(kind="link-cut", at=10.0, lasts_s=5.0, target="AB")  # type: ignore[arg-type] # what is refused
    assert "its target looks like" in problem_of(structs.replace(PLAN, faults=(fault,)))


def test_every_mistake_is_told_at_once() -> None:
    plan = structs.replace(PLAN, publishers={"other": "X"}, links=(("A", "Y"),))
    with pytest.raises(PlanError, match="the plan has 3 mistakes\n  - links") as caught:
        World(plan)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("target", [("A", "B"), ("C", "B")])
def test_a_link_may_be_named_from_either_end(target: tuple[str, str]) -> None:
    assert faults.schedule(World(with_fault("link-cut", *target))) == 15.0


def test_where_there_may_be_soft_links_any_two_gateways_may_be_cut() -> None:
    plan = with_fault("link-cut", "A", "C")
    assert faults.schedule(World(structs.replace(plan, is_restless=True))) == 15.0
    own = Options(build=partial(build_node))
    assert faults.schedule(World(plan, own)) == 15.0


def test_faults_that_nobody_scheduled_are_not_left_out_silently() -> None:
    world = World(with_fault("link-cut", "A", "B"))
    with pytest.raises(PlanError, match=r"call mqloom\.lab\.faults\.schedule\(world\) before run"):
        world.run(until=1.0)
    faults.schedule(world)
    world.run(until=1.0)
    assert world.clock.now == 1.0


def test_the_command_tells_the_mistake_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from mqloom.lab.experiment import Experiment\n"
        "from mqloom.lab.plan import Plan\n"
        "from mqloom.lab.world import World\n"
        "def run(seed, quick, tell):\n"
        "    World(Plan(seed=seed, gateways=('A',), links=(('A', 'B'),), publishers={}, subscribers=()))\n"
        "experiment = Experiment(name='mine', summary='', source='', run=run)\n"
    )
    assert main(["lab", "run", str(file)]) == 1
    assert capsys.readouterr().err == (
        "mqloom lab: the plan has 1 mistake\n  - links[0]: 'B' is not among the gateways; there are: A\n"
    )
