"""Profiles for agents (paper 000, section 4.1): what the next publications match here, and what of it is wanted there.

Theory of operation. While a profile is taken, the publications and what the matcher has found for them are kept as they
are: one more reference for each, nothing for each subscription. The paper lets the accepting broker's covering set be
subscribed to meanwhile; here it is tried on the samples when all have come, a slice with every waking, so that neither
the matcher is changed twice by thousands of subscriptions nor a publication ever waits for it.

Of each agent one profile is taken at a time. It ends with so many samples, when its time is over, when the samples hold
more than PROFILE_BYTES_MAX, or when another configuration comes to hold; and is told with what there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqloom.core.ids import SubscriptionKey
from mqloom.core.limits import PROFILE_BYTES_MAX, PROFILE_KEYS, PROFILE_SLICE
from mqloom.core.publication import Publication
from mqloom.core.subscription import Subscription
from mqloom.core.topics import topic_matches
from mqloom.gateway.agent_interfaces import ProfileTaken, Sample, TakeProfile
from mqloom.gateway.contents import Contents
from mqloom.gateway.interfaces import Content
from mqloom.gateway.journal import Journal
from mqloom.gateway.routes import Routes
from mqloom.gateway.subscribers import Subscribers


@dataclass(slots=True)
class _Profile:
    """One that is being taken, or, from `took_s` on, tried."""

    order: TakeProfile
    since: float
    publications: list[Publication] = field(default_factory=list)
    found: list[Sequence[SubscriptionKey]] = field(default_factory=list)
    come_anyway: list[bool] = field(default_factory=list)
    size: int = 0
    took_s: float | None = None
    contents: list[Content] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    tried: int = 0
    """Of the covering set, on the sample that is next."""

    @property
    def is_full(self) -> bool:
        return len(self.publications) >= self.order.samples or self.size > PROFILE_BYTES_MAX


class Profiling:
    """The profiles that agents of one gateway have asked for."""

    def __init__(self, contents: Contents, routes: Routes, subscribers: Subscribers, journal: Journal) -> None:
        self._contents = contents
        self._routes = routes
        self._subscribers = subscribers
        self._journal = journal
        self._profiles: dict[str, _Profile] = {}
        self._again_at: float | None = None
        self.is_sampling = False
        """Whether `note` must be called."""

    def begin(self, agent: str, order: TakeProfile, now: float) -> None:
        """Take a profile for an agent, instead of the one before, if there is one."""
        self._profiles[agent] = _Profile(order, now)
        self._look()

    def note(
        self,
        publications: Sequence[Publication],
        found: Sequence[Sequence[SubscriptionKey]],
        come_anyway: Sequence[bool],
    ) -> None:
        """These publications have come, and match this; some come in though nobody here wants them.

        Nothing of it may be changed afterwards.
        """
        for profile in self._profiles.values():
            if profile.took_s is not None or profile.is_full:
                continue
            room = profile.order.samples - len(profile.publications)
            profile.publications += publications[:room]
            profile.found += found[:room]
            profile.come_anyway += come_anyway[:room]
            profile.size += sum(len(each.payload) for each in publications[:room])
        self._look()

    def _look(self) -> None:
        self.is_sampling = any(each.took_s is None and not each.is_full for each in self._profiles.values())

    def stop(self, now: float) -> None:
        """Sample no more: payloads are read in another way from now on."""
        for profile in self._profiles.values():
            if profile.took_s is None:
                self._complete(profile, now)

    def forget(self, agent: str) -> None:
        """An agent has failed: it waits for nothing."""
        self._profiles.pop(agent, None)
        self._look()

    def due(self, now: float) -> list[tuple[str, ProfileTaken]]:
        """Go on; return the profiles that are done, each with the agent that asked."""
        done = []
        for agent, profile in list(self._profiles.items()):
            if profile.took_s is None and (profile.is_full or now >= profile.since + profile.order.timeout_s):
                self._complete(profile, now)
            if profile.took_s is None:
                continue
            self._try(profile)
            if len(profile.samples) == len(profile.publications):
                del self._profiles[agent]
                done.append((agent, ProfileTaken(profile.order.token, profile.samples, profile.took_s)))
        self._again_at = now if any(each.took_s is not None for each in self._profiles.values()) else None
        return done

    def _complete(self, profile: _Profile, now: float) -> None:
        profile.took_s = max(0.0, now - profile.since)
        with self._journal.setting_aside("payloads_undecodable"):  # that was counted when they came
            profile.contents = self._contents.decode(profile.publications)
        self._look()

    def _try(self, profile: _Profile) -> None:
        """Try so much of the covering set on samples as may be done at a time."""
        tries = PROFILE_SLICE
        covering = profile.order.covering
        while tries > 0 and len(profile.samples) < len(profile.publications):
            place = len(profile.samples)
            content = profile.contents[place]
            last = min(len(covering), profile.tried + tries)
            first = next((each for each in range(profile.tried, last) if _wants(covering[each], content)), None)
            tries -= (last if first is None else first) - profile.tried + 1
            profile.tried = last
            if first is None and last < len(covering):
                return
            publication = profile.publications[place]
            keys = self._routes.only_here(profile.found[place])
            tries -= len(profile.found[place]) // PROFILE_KEYS
            size = len(publication.topic) + len(publication.payload)
            stays = profile.come_anyway[place] or not all(map(self._subscribers.is_of_client, keys))
            profile.samples.append(Sample(keys, first is not None, size, stays))
            profile.tried = 0

    @property
    def deadline(self) -> float | None:
        """When `due` must be called."""
        if self._again_at is not None:
            return self._again_at
        times = (each.since + each.order.timeout_s for each in self._profiles.values() if each.took_s is None)
        return min(times, default=None)


def _wants(subscription: Subscription, content: Content) -> bool:
    if not topic_matches(subscription.topics, content.topic):
        return False
    return subscription.where.matches(content.attributes or {})
