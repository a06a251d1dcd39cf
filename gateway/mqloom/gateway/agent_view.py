"""What agents see of their gateway: who is next to it, what its clients want, and who of these can be moved."""

from collections.abc import Callable, Collection, Mapping, Sequence

from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription
from mqloom.gateway.migrations import Migrations
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.gateway.routes import Routes
from mqloom.gateway.subscribers import Subscribers


class GatewayView:
    """One gateway, as its agents look at it (`AgentView`); looking changes nothing."""

    def __init__(
        self,
        neighbours: Callable[[], Sequence[GatewayId]],
        routes: Routes,
        subscribers: Subscribers,
        migrations: Migrations,
        offloads: Mapping[str, OffloadKind],
    ) -> None:
        self._neighbours = neighbours
        self._routes = routes
        self._subscribers = subscribers
        self._migrations = migrations
        self._offloads = offloads

    def neighbours(self) -> Sequence[GatewayId]:
        """Return the gateways at the other ends of our primary links."""
        return self._neighbours()

    def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
        """Return what our own clients want, without what is ending."""
        return {
            client: {key: self._routes.subscription_of(key) for key in keys if key in self._routes}
            for client, keys in self._subscribers.wishes()
        }

    def movable(self) -> Collection[ClientId]:
        """Return those of our clients that can be ordered elsewhere, and are not on their way already."""
        return self._migrations.movable()

    def is_draining(self) -> bool:
        """Tell whether an operator lets our broker be emptied."""
        return self._migrations.is_draining

    def covering_set(self) -> Sequence[Subscription]:
        """Return the most general subscriptions of our own clients: all others are covered by these."""
        return self._routes.covering_set_here()

    def offload(self, name: str) -> OffloadKind | None:
        """Return the way of this name to choose whom to move, if a plugin offers it."""
        return self._offloads.get(name)
