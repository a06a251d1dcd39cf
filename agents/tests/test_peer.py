from mqloom.agents.peer import CONFIGURED_HOPS, GRACE_PERIODS, LOCAL_HOPS, Peer
from mqloom.agents.pie import RELAYS_MAX, Pie
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load

A, B, C, D = (GatewayId(name) for name in "ABCD")
SETTINGS = BalanceSettings()
IDLE = Load(
    input_ratio=0,
    delay_s=0,
    output_ratio=0,
    input_rate=0,
    output_bytes_s=0,
    output_bytes_s_max=1,
    subscriptions=0,
)


def says(broker: GatewayId, cluster: str) -> Pie:
    return Pie(level="local", broker=broker, cluster=cluster, load=IDLE, state=BalanceState.OK)


def test_with_one_neighbour_a_broker_is_an_edge_of_that_ones_cluster() -> None:
    peer = Peer(A, [B], SETTINGS)
    assert (peer.role, peer.cluster, peer.head) == ("edge", B, B)
    assert peer.local_hops == LOCAL_HOPS


def test_with_more_neighbours_it_is_a_head_of_its_own() -> None:
    peer = Peer(B, [C, A, B], SETTINGS)
    assert (peer.role, peer.cluster, peer.head, peer.neighbours) == ("head", B, B, (A, C))
    assert peer.clusters == (B,)


def test_a_lone_broker_has_a_cluster_of_its_own_and_nobody_to_ask() -> None:
    peer = Peer(A, [], SETTINGS)
    assert (peer.role, peer.cluster, peer.head, peer.clusters) == ("edge", A, None, (A,))


def test_two_brokers_joined_only_to_each_other_are_edges_that_find_each_other() -> None:
    one, other = Peer(A, [B], SETTINGS), Peer(B, [A], SETTINGS)
    assert one.edges([says(B, other.cluster), says(A, one.cluster)]) == [says(B, A)]
    assert other.edges([says(A, one.cluster)]) == [says(A, B)]


def test_edges_are_those_of_the_own_cluster() -> None:
    head = Peer(B, [A, C], SETTINGS)
    assert head.edges([says(A, B), says(D, C)]) == [says(A, B)]


def test_when_neighbours_change_role_and_cluster_follow() -> None:
    peer = Peer(A, [B], SETTINGS)
    assert not peer.change([B])
    assert peer.change([B, C])
    assert (peer.role, peer.cluster) == ("head", A)
    assert not peer.change([C, D])
    assert peer.change([D])
    assert (peer.role, peer.cluster) == ("edge", D)


def test_what_is_configured_counts_more_than_the_topology() -> None:
    peer = Peer(A, [B, C], BalanceSettings(role="edge", cluster="south"))
    assert (peer.role, peer.cluster, peer.clusters) == ("edge", "south", ("south",))
    assert peer.head is None
    assert peer.local_hops == CONFIGURED_HOPS
    assert not peer.change([B])
    assert peer.head is None
    assert Peer(A, [B], BalanceSettings(role="head")).cluster == A
    assert Peer(A, [B, C], BalanceSettings(role="edge")).cluster == A


def test_a_head_without_edges_hands_global_pie_on_and_waits_before_it_takes_itself_for_one() -> None:
    head, grace_s = Peer(B, [A, C], SETTINGS), GRACE_PERIODS * SETTINGS.local_pie_s
    assert not head.relays([], 0.0)
    assert not head.relays([], grace_s - 1)
    assert head.relays([], grace_s)
    assert not head.relays([says(A, B)], grace_s)
    assert not head.relays([], grace_s + 1)
    assert head.relays([], 2 * grace_s + 1)
    assert not Peer(A, [B], SETTINGS).relays([], 1e9)


def test_in_a_session_between_clusters_pie_reaches_the_edges_of_the_other_past_every_relay() -> None:
    assert Peer(A, [B], SETTINGS).session_hops == 3 + RELAYS_MAX
