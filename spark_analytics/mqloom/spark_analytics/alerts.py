"""What is worth telling at once, as a core: rows of telemetry in the order of the spool in, alerts out.

An alert is told when something begins and when it is over, not in between. Its id is made of what it is about and of
the position of the row that caused it, so the same rows always make the same alerts, whoever reads them and how often.
"""

from typing import Any, Final, Literal, Protocol

from msgspec import Struct

RESOURCES: Final = {
    "input": ("input_ratio", "of the messages that it can take"),
    "output": ("output_ratio", "of the bytes that it can send"),
    "cpu": ("cpu_ratio", "of its processor"),
    "memory": ("memory_ratio", "of its memory"),
}
"""What a broker can have too little of: the column of `load`, and words for it."""

TOPIC_KINDS: Final = {
    "overload": "a broker has used more of a resource than it should, in several windows in a row",
    "link": "a link between gateways is down",
    "prediction": "a balancing session has come out otherwise than predicted",
    "telemetry": "a gateway has dropped telemetry, or some could not be read",
}
"""Kinds of alerts, with their meaning."""

OBSERVED_LEAST: Final = {"input": 0.02, "match": 0.002, "output": 0.02}
"""What came of a session, by its metric: of smaller figures any error is a large share, and says nothing (as in
`padres-estimate`)."""

STATES_MAX: Final = 100_000
"""Conditions that are watched; of further ones nothing is told."""


class Fields(Protocol):
    """Something with values by name: a row of Spark, or a dict."""

    def __getitem__(self, name: Any, /) -> Any:
        """Return a value."""
        ...


class Limits(Struct, frozen=True, kw_only=True):
    """From where on something is an alert."""

    begin_ratio: float = 0.95
    """A resource used by this much and more; 0.95 is where load agents call a broker overloaded."""
    end_ratio: float = 0.9
    """It is over when less than this is used."""
    windows: int = 3
    """So many load samples in a row."""
    prediction_error: float = 0.25
    """How far, as a share of what is there, a prediction may be wrong."""


class Alert(Struct, frozen=True, kw_only=True):
    """What is published, as JSON."""

    id: str
    kind: Literal["overload", "link", "prediction", "telemetry"]
    gateway: str
    what: str
    """The resource, the peer, the metric: what of the gateway it is about."""
    is_over: bool
    value: float
    at: float
    """When it was observed, in Unix time."""
    text: str


class Condition(Struct):
    """What is known of one resource of one broker, or of one link."""

    bad: int = 0
    """Observations in a row that were bad."""
    is_told: bool = False


class Watch(Struct):
    """Watches rows of the table that has all kinds. Its state is its fields: it can be kept, and gone on with."""

    limits: Limits = Limits()
    conditions: dict[str, Condition] = {}

    def row(self, row: Fields) -> list[Alert]:
        """Take a row, with `position`, `gateway`, `at_s`, `kind` and the kind's own columns under its name."""
        match row["kind"]:
            case "load":
                return self._load(row, row["load"])
            case "link":
                return self._link(row, row["link"])
            case "migration":
                return self._migration(row, row["migration"])
            case "dropped":
                lost = row["dropped"]["amount"]
                text = f"{row['gateway']} has dropped {lost} records of telemetry: the collector did not keep up"
                return [_alert(row, "telemetry", "dropped", lost, text)]
            case "missing":
                lost = row["missing"]["end"] - row["position"]
                what = "a record" if lost == 1 else f"{lost} records"
                text = f"{what} of telemetry could not be read: {row['missing']['problem']}"
                return [_alert(row, "telemetry", "missing", lost, text)]
        return []

    def _load(self, row: Fields, load: Fields) -> list[Alert]:
        found = []
        for resource, (column, words) in RESOURCES.items():
            used = load[column]
            condition = self._condition(f"overload/{row['gateway']}/{resource}")
            if condition is None:
                continue
            text = f"{row['gateway']} uses {used:.0%} {words}"
            if used >= self.limits.begin_ratio:
                condition.bad += 1
                if condition.bad >= self.limits.windows and not condition.is_told:
                    condition.is_told = True
                    found.append(_alert(row, "overload", resource, used, f"{text}: it is overloaded"))
                continue
            condition.bad = 0
            if condition.is_told and used < self.limits.end_ratio:
                condition.is_told = False
                found.append(_alert(row, "overload", resource, used, f"{text} again", is_over=True))
        return found

    def _link(self, row: Fields, link: Fields) -> list[Alert]:
        if link["kind"] == "candidate":  # there is none, and there may be as many as pairs of brokers
            return []
        condition = self._condition(f"link/{row['gateway']}/{link['peer']}")
        if condition is None or condition.is_told != link["is_up"]:
            return []
        condition.is_told = not link["is_up"]
        state = "up again" if link["is_up"] else "down"
        text = f"the link from {row['gateway']} to {link['peer']} is {state}"
        return [_alert(row, "link", link["peer"], float(link["is_up"]), text, is_over=link["is_up"])]

    def _migration(self, row: Fields, session: Fields) -> list[Alert]:
        ends = {"input": "input", "match": "delay_s", "output": "output"}
        column = ends.get(session["metric"])
        if column is None:
            return []
        predicted, observed = session[f"predicted_{column}"], session[f"observed_{column}"]
        if not observed >= OBSERVED_LEAST[session["metric"]]:  # also if it is not known, and not a number
            return []
        error = (predicted - observed) / observed
        if not abs(error) > self.limits.prediction_error:
            return []
        # The gateway that gave tells of both sides.
        broker = row["gateway"] if session["is_offloading"] else session["partner"]
        text = f"after session {session['session']} {session['metric']} of {broker} was predicted to be"
        text = f"{text} {predicted:.3g} and is {observed:.3g}: wrong by {abs(error):.0%}"
        return [_alert(row, "prediction", session["metric"], error, text, broker=broker)]

    def _condition(self, name: str) -> Condition | None:
        condition = self.conditions.get(name)
        if condition is None and len(self.conditions) < STATES_MAX:
            condition = self.conditions[name] = Condition()
        return condition


def _alert(
    row: Fields,
    kind: Literal["overload", "link", "prediction", "telemetry"],
    what: str,
    value: float,
    text: str,
    *,
    is_over: bool = False,
    broker: str | None = None,
) -> Alert:
    gateway = broker or row["gateway"] or ""
    name = f"{kind}/{gateway}/{what}/{row['position']}"
    at = row["at_s"] or 0.0
    return Alert(id=name, kind=kind, gateway=gateway, what=what, is_over=is_over, value=value, at=at, text=text)
