"""Mistakes in a plan that somebody wrote, each said in a sentence before anything happens: what, where, what to do."""

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from mqloom.core.errors import LocalError
from mqloom.lab.plan import FaultPlan, Plan


class PlanError(LocalError):
    """A plan that cannot be run; `problems` has one sentence for each mistake."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        count = f"{len(problems)} mistake" + ("" if len(problems) == 1 else "s")
        super().__init__("\n".join([f"the plan has {count}", *(f"  - {problem}" for problem in problems)]))


def check_plan(plan: Plan) -> None:
    """Raise PlanError if a plan names what is not in it, or one name or number twice."""
    problems = [*_unknown_gateways(plan), *_doubled_names(plan), *_publication_problems(plan)]
    if problems:
        raise PlanError(*problems)


def check_faults(plan: Plan, befalls: Mapping[str, str], *, any_pair: bool) -> None:
    """Raise PlanError if a fault is of no kind of `befalls`, or befalls something else than its kind does.

    `any_pair` says that two gateways need no link of the plan between them: they may have a soft one.
    """
    problems = [
        f"faults[{index}] ({fault.kind!r}, target {fault.target!r}): {problem}"
        for index, fault in enumerate(plan.faults)
        if (problem := _fault_problem(plan, fault, befalls, any_pair=any_pair))
    ]
    if problems:
        raise PlanError(*problems)


def _unknown_gateways(plan: Plan) -> Iterator[str]:
    places = [(f"links[{index}]", name) for index, pair in enumerate(plan.links) for name in pair]
    places += [(f"publisher {publisher!r}", gateway) for publisher, gateway in plan.publishers.items()]
    places += [(f"subscriber {each.name!r}", each.gateway) for each in plan.subscribers]
    known = set(plan.gateways)
    for where, name in places:
        if name not in known:
            yield f"{where}: {name!r} is not among the gateways; {_there_are(name, plan.gateways)}"


def _doubled_names(plan: Plan) -> Iterator[str]:
    names = [*plan.gateways, *plan.publishers, *(each.name for each in plan.subscribers)]
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{name!r} is the name of {count}; gateways, publishers and subscribers need one each of their own"
    for index, (one, other) in enumerate(plan.links):
        if one == other:
            yield f"links[{index}]: {one!r} cannot be linked to itself"


def _publication_problems(plan: Plan) -> Iterator[str]:
    for name in dict.fromkeys(each.publisher for each in plan.publications):
        if name not in plan.publishers:
            yield f"publications: {name!r} is not among the publishers; {_there_are(name, plan.publishers)}"
    numbers = Counter(each.number for each in plan.publications)
    if len(numbers) < len(plan.publications):
        doubled, count = numbers.most_common(1)[0]
        yield f"publications: {count} have the number {doubled}; each needs its own, or they are taken for one"


def _fault_problem(plan: Plan, fault: FaultPlan, befalls: Mapping[str, str], *, any_pair: bool) -> str:
    """Return what is wrong with a fault, nothing if all is right."""
    if fault.kind not in befalls:
        return f"there is no such kind; {_there_are(fault.kind, befalls)}"
    what = befalls[fault.kind]
    names = _names_of(plan, what)
    wanted = 2 if what == "link" else 1
    if isinstance(fault.target, str) or len(fault.target) != wanted:
        example = '("A", "B"), both ends of a link' if what == "link" else f'("A",), the name of a {what}'
        return f"it befalls a {what}: its target looks like {example}"
    for name in fault.target:
        if name not in names:
            return f"it befalls a {what}, and {name!r} is none of the {_ends(what)}s; {_there_are(name, names)}"
    if what == "link" and not any_pair and {*fault.target} not in ({*pair} for pair in plan.links):
        links = ", ".join(f"{one} {other}" for one, other in plan.links)
        return f"there is no link between the two, so nothing would happen; links are: {links or 'none'}"
    return "" if fault.at >= 0 and fault.lasts_s >= 0 else "`at` and `lasts_s` are seconds, 0 or more"


def _ends(what: str) -> str:
    return "gateway" if what == "link" else what


def _names_of(plan: Plan, what: str) -> Collection[str]:
    """Return whom a fault may befall, by what it befalls."""
    if what == "publisher":
        return plan.publishers
    if what == "traveller":
        return [each.name for each in plan.subscribers if each.travels]
    return [each.name for each in plan.subscribers] if what == "subscriber" else plan.gateways


def _there_are(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
