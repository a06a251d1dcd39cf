"""What load agents say of themselves, for people: how brokers stand, which sessions there were, and why."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqloom.core.balance_records import BalanceAnswer, EstimationError, Figures, SeenBroker, SessionShown

BROKERS: Final = ("GATEWAY", "ROLE", "CLUSTER", "MODE", "STATE", "INPUT", "DELAY", "OUTPUT", "SUBSCRIPTIONS")
SESSIONS: Final = ("AT", "SESSION", "LEVEL", "WITH", "FOR", "AGO", "MOVED", "OUTCOME")
SESSIONS_SHOWN: Final = 20
"""Sessions in the table, the last ones; `--json` has them all."""


def status_lines(answers: Sequence[BalanceAnswer]) -> list[str]:
    """Return tables of brokers and of sessions."""
    brokers: list[tuple[str, ...]] = [BROKERS]
    for answer in answers:
        place = (answer.gateway, answer.role, answer.cluster, answer.mode, answer.state)
        brokers.append((*place, *_figures(answer.own)))
    sessions = [(answer.gateway, session) for answer in answers for session in answer.sessions]
    sessions.sort(key=lambda pair: pair[1].began_s_ago)
    lines = aligned(brokers)
    if not sessions:
        return [*lines, "", "no sessions yet"]
    rows = [SESSIONS, *(_row(gateway, session) for gateway, session in sessions[:SESSIONS_SHOWN])]
    lines += ["", *aligned(rows)]
    if len(sessions) > SESSIONS_SHOWN:
        lines.append(f"and {len(sessions) - SESSIONS_SHOWN:,} earlier ones: see --json")
    return lines


def _figures(figures: Figures | None) -> tuple[str, ...]:
    if figures is None:
        return ("-", "-", "-", "-")
    delay = f"{figures.delay_s * 1_000:,.2f} ms"
    return (f"{figures.input_ratio:.0%}", delay, f"{figures.output_ratio:.0%}", f"{figures.subscriptions:,}")


def _row(gateway: str, session: SessionShown) -> tuple[str, ...]:
    way = "to" if session.is_offloading else "from"
    partner = f"{way} {session.partner}" if session.partner else "nobody"
    return (
        gateway,
        session.session or "-",
        session.level,
        partner,
        _purpose(session),
        f"{session.began_s_ago:,.0f} s",
        _moved(session),
        session.outcome,
    )


def _purpose(session: SessionShown) -> str:
    metric = session.metric or "-"
    return f"{metric}, overload" if session.is_overload else metric


def _moved(session: SessionShown) -> str:
    if session.is_advice and session.is_offloading:
        return f"would {session.chosen:,}"
    return "?" if session.moved < 0 else f"{session.moved:,}"


def explain_lines(gateway: str, session: SessionShown) -> list[str]:
    """Return everything about one session, as one broker knows it."""
    way = "gives load to" if session.is_offloading else "takes load from"
    lasted = "it lasts" if session.took_s is None else f"it took {session.took_s:,.1f} s"
    begun = f"begun {session.began_s_ago:,.0f} s ago, {lasted}"
    lines = [
        f"session {session.session}, as {gateway} knows it",
        f"  {session.level}: {gateway} {way} {session.partner or 'nobody'}, for {_purpose(session)}; {begun}",
        f"  outcome: {session.outcome}" + (f" ({session.reason})" if session.reason else ""),
    ]
    if session.why:
        lines.append(f"  seen: {session.why}")
    if session.own is not None:
        lines.append(f"    {gateway} itself: {_said(session.own)}")
    lines += [f"    {_broker(each)}" for each in session.seen]
    if session.considered:
        lines.append("  considered, in this order:")
        lines += [
            f"    {each.broker}, {each.metric} less by {each.difference:.3g}: {each.answer}"
            for each in session.considered
        ]
    lines += _cards(session)
    lines += _clients(session)
    lines += _predictions(gateway, session)
    return lines


def _said(figures: Figures) -> str:
    ratio, delay, output, subscriptions = _figures(figures)
    return f"input {ratio}, delay {delay}, output {output}, {subscriptions} subscriptions"


def _broker(seen: SeenBroker) -> str:
    return f"{seen.broker} ({seen.state}, cluster {seen.cluster}): {_said(seen.figures)}"


def _cards(session: SessionShown) -> Iterator[str]:
    if not session.cards:
        return
    yield "  report cards, as they were chosen:"
    for card in session.cards:
        covered = ", which the other broker gets already" if card.is_covered else ""
        rates = f"input here -{card.rate_reduced:.3g}/s, there +{card.rate_added:.3g}/s"
        who = f"{card.clients:,} clients of {card.bytes_s_each:,.0f} B/s each{covered}"
        yield f"    {who}: {rates}, difference left {card.difference:.3g}"
    if session.cards_more:
        yield f"    and {session.cards_more:,} more"


def _clients(session: SessionShown) -> Iterator[str]:
    if session.choice:
        yield f"  it ended there: {session.choice}"
    if session.covering_left_out:
        text = "of the partner's covering set were not told: its input was overestimated"
        yield f"  {session.covering_left_out:,} subscriptions {text}"
    if session.is_advice:
        yield f"  only advice: it would move {session.chosen:,} clients" if session.is_offloading else "  only advice"
    else:
        yield f"  moved: {_moved(session)} clients, {session.stayed:,} stayed"
    if session.clients:
        yield f"    among them {', '.join(session.clients)}"
    for client, why in session.stayed_why.items():
        yield f"    {client} stayed: {why}"


def _predictions(gateway: str, session: SessionShown) -> Iterator[str]:
    sides = (
        (gateway, session.predicted, session.observed, session.error),
        (session.partner, session.predicted_partner, session.observed_partner, session.error_partner),
    )
    for broker, predicted, observed, error in sides:
        if predicted is not None:
            yield f"  predicted for {broker}: {_said(predicted)}"
        if observed is not None:
            yield f"       came at {broker}: {_said(observed)}{_error(error)}"


def _error(error: EstimationError) -> str:
    known = [
        f"{name} {share:.0%}"
        for name, share in (("input", error.input), ("delay", error.match), ("output", error.output))
        if share is not None
    ]
    return f"; wrong by {', '.join(known)}" if known else ""


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
