"""What a gateway counts, each with its meaning; docs/counters.md lists them, and a test keeps it so.

A counter of failures is counted by reason, so that an operator sees not only that but why.
"""

from collections import Counter
from typing import Final

from mqloom.core.wire import REFUSALS

DROPS: Final = (
    "not connected",
    "queue full",
    "backlog full",
    "too large",
    "invalid",
    "closed",
    "refused by the broker",
)
"""Why a connection does not take a message, or give one."""

SEALS: Final = ("empty", "malformed", "unsealed", "key", "forged")
"""Why what a gateway keeps on its broker is not opened, where the federation has a key."""

REQUESTS: Final = (*SEALS, "outdated", "replayed")
"""The same, of what a command asks or orders."""

MOVE_STEPS: Final = ("asking", "freezing", "linking", "sweeping", "settling", "holding", "keeping", "leaving")
"""How far a move of a primary link had come when it ended where it began."""

COUNTERS: Final = {
    "publications_in": "publications taken in from the local broker",
    "publications_refused": "publications of the local broker not taken in, by reason",
    "publications_received": "publications received from neighbours, duplicates not counted",
    "publications_matched": "publications that somebody here or beyond a link wanted",
    "publications_forwarded": "publications sent over links, once for each link",
    "publications_softly": "publications sent over soft links, among those forwarded",
    "publications_rerouted": "publications that a soft link gave back, sent another way",
    "publications_relayed": "publications received from other gateways that nobody here wanted: pure forwards",
    "publications_dropped": "publications not sent on or not delivered, by reason",
    "publications_parked": "publications put on our own broker because a link is down or too slow, once for each link",
    "publications_dead": "publications put on the gateway's dead topic, by reason: plugin, refused by our own broker",
    "duplicates": "publications that had come before, dropped",
    "broker_sessions_lost": "times that our own broker came back without our session, by reason: which session",
    "deliveries": "publications given to local subscribers, once for each subscriber",
    "payloads_undecodable": "payloads that their codec could not read: delivered by topic alone",
    "plugin_failures": "calls of a plugin that raised, by plugin",
    "subscriptions_established": "subscriptions that every gateway routes for; partly: every one in reach",
    "subscriptions_refused": "subscriptions or records refused, by reason",
    "subscriptions_expired": "subscriptions that ended although nobody had ended them, by reason: their lease ran out",
    "mirror_refused": "records that were not mirrored, or not read from the mirror, by reason",
    "questions_refused": "questions about routes, or to agents, that could not be answered, by reason",
    "announcements_sent": "subscriptions announced to neighbours",
    "announcements_withheld": "subscriptions not announced because another that was covers them",
    "withdrawals_sent": "announcements taken back",
    "frames_sent": "frames written to links",
    "frames_received": "frames read from links and obeyed",
    "frames_refused": "frames from links refused, by reason",
    "frames_challenged": "sealed greetings whose sender was asked to show that it is there now: at each start of one",
    "frames_resent": "frames written to links again, because they were not acknowledged",
    "frames_stale": "frames of a conversation that is over, repeated or behind a gap, dropped: they come again",
    "link_resets": "conversations begun anew after the neighbour restarted",
    "flows_parked": "times that so much waited for a link that it was parked, by reason",
    "links_crowded": "times that so much waited for a soft link that it was sent another way",
    "overlay_ignored": "what neighbours' overlays told that ours could make no use of, by reason",
    "anchors_unknown": "anchors off the map, for which a publication went to all sides; once for each way remembered",
    "links_refused": "soft links that an overlay asked for that were refused, by reason",
    "moves_made": "primary links that this gateway moved to another neighbour",
    "moves_refused": "moves of primary links that were not begun, or ended where they began, by reason",
    "places_refused": "records of our neighbours not used at the start, or against the configuration, by reason",
    "migrations_ordered": "orders to move to another broker given to clients",
    "migrations_made": "clients that have moved to another broker by an order of ours",
    "migrations_stayed": "clients that were to move and did not, or said nothing, by reason",
    "migrations_refused": "requests of operators to move clients, and answers of clients, that were refused, by reason",
    "reloads_refused": "orders to read the configuration again that were refused, or found a mistake in it, by reason",
    "rosters_refused": "rosters on our own broker that are not ours, and were written over, by reason",
    "controls_published": "control publications of our own agents",
    "controls_sent": "control publications sent over links, once for each link",
    "controls_received": "control publications of agents received",
    "controls_refused": "control publications an agent asked for that were refused, by reason",
    "wants_sent": "what agents want of control publications, told to neighbours, once for each link",
    "wants_withdrawn": "what agents do not want any more, or not through us, told to neighbours, once for each link",
    "wants_received": "what agents want, or do not want any more, heard from neighbours",
    "wants_refused": "what agents want that a neighbour told and that was refused, by reason",
    "pointers_dropped": "clients that have moved away whose word where they are was deleted early, by reason: too many",
    "flushes_expired": "unsubscriptions carried out although a neighbour had not confirmed in time",
    "publications_republished": "publications of other gateways put on the local broker for its plain clients",
    "interest_refused": "topic filters of plain clients that are not federated, by reason",
    "echoes": "publications put on the local broker that it handed back to us, dropped",
    "echoes_missed": "publications put on the local broker that it should have handed back, and did not, by reason",
    "local_publishes_dropped": "messages for the local broker that its connection could not take, by reason",
    "link_frames_dropped": "frames for a neighbour that its connection could not take, by reason",
    "telemetry_dropped": "telemetry records dropped, by reason: the collector did not take those before them",
}
"""Every counter by name, with its meaning."""

REASONS: Final = {
    "publications_refused": (
        "payload too large",
        "retained replay",
        "topic too long",
        "topic invalid",
        "too many properties",
    ),
    "publications_dropped": ("link down", "hops", "urgent", "start", "refused"),
    "publications_dead": ("plugin", "refused"),
    "broker_sessions_lost": ("intake",),
    "subscriptions_established": ("partly",),
    "subscriptions_refused": (
        "record",
        "rate",
        "admission",
        "filter",
        "topic",
        "matcher",
        "too many",
        "neighbour",
        "conflict",
        "cycle",
        "hops",
    ),
    "subscriptions_expired": ("lease",),
    "pointers_dropped": ("too many",),
    "mirror_refused": ("too large",),
    "questions_refused": ("rate", "client", "topic", "matcher", "agent", "oversized", *REQUESTS),
    "frames_refused": (*REFUSALS, "park", "status", "order", "answer"),
    "flows_parked": ("queue",),
    "links_refused": ("unknown", "many"),
    "links_crowded": ("soft",),
    "link_resets": ("restarted",),
    "frames_stale": ("past",),
    "moves_refused": ("order", "path", "number", "client", *MOVE_STEPS, *REQUESTS),
    "migrations_refused": ("request", "client", "answer", "mark", "stale", "agent", *SEALS),
    "migrations_stayed": ("stayed", "silent", "restarted", "gone", "moving", "target"),
    "reloads_refused": ("configuration", "malformed", "client", "many"),
    "rosters_refused": ("malformed", "key", "forged", "stranger", "size"),
    "places_refused": ("configuration", *SEALS),
    "overlay_ignored": ("malformed", "stranger", "contradicted", "report"),
    "controls_refused": ("oversized",),
    "wants_refused": ("filter", "hops", "many"),
    "flushes_expired": ("deadline", "patience"),
    "interest_refused": ("topic", "too many", "matcher", "client"),
    "echoes_missed": ("late", "session lost", "too many"),
    "local_publishes_dropped": DROPS,
    "link_frames_dropped": DROPS,
    "telemetry_dropped": ("queue full",),
}
"""The reasons that are known beforehand, by counter."""

BY_PLUGIN: Final = ("plugin_failures", "payloads_undecodable")
"""Counters whose reasons are names of plugins and codecs, which nobody knows beforehand."""

FAILURE_WORDS: Final = ("refused", "dropped", "failures", "undecodable", "dead", "expired", "lost")
"""A counter whose name ends in one of these counts what somebody may want to do something about."""


def is_failure(name: str) -> bool:
    """Whether a counter is one of failures."""
    return name.endswith(FAILURE_WORDS)


class Counters:
    """The counts of one gateway."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, reason: str = "", amount: int = 1) -> None:
        """Count; `name` must be one of COUNTERS."""
        assert name in COUNTERS, name
        if amount:
            self._counts[name, reason] += amount

    def total(self, name: str) -> int:
        """Return a counter's value, over all its reasons."""
        assert name in COUNTERS, name
        return sum(count for (counted, _), count in self._counts.items() if counted == name)

    def value(self, name: str, reason: str) -> int:
        """Return a counter's value for one reason."""
        return self._counts[name, reason]

    def reasons(self, name: str) -> dict[str, int]:
        """Return a counter's values by reason."""
        return {reason: count for (counted, reason), count in sorted(self._counts.items()) if counted == name}

    def check(self) -> None:
        """State that every failure has a reason, and every reason was known beforehand.

        Whoever alerts on a rise must have its series before.
        """
        for name, reason in self._counts:
            assert reason or not is_failure(name), name
            assert not reason or name in BY_PLUGIN or reason in REASONS.get(name, ()), (name, reason)

    def snapshot(self) -> dict[str, int]:
        """Return all values, `name` or `name.reason`, in the order of their names."""
        return {f"{name}.{reason}" if reason else name: count for (name, reason), count in sorted(self._counts.items())}
