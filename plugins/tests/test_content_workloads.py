"""The two workloads of the papers, against every filter by itself on a sample of publications."""

import random

from mqloom.plugins.content import Engine, Filter

SUBSCRIPTIONS = 4000


def stock_filter(rng: random.Random) -> str:
    symbol = f"symbol = 'S{rng.randrange(100)}'"
    kind = rng.random()
    if kind < 0.2:
        return f"{symbol} AND high > {rng.uniform(10, 110)}"
    if kind < 0.4:
        return f"{symbol} AND low < {rng.uniform(10, 110)}"
    if kind < 0.6:
        return f"{symbol} AND volume > {rng.randrange(10**6)}"
    if kind < 0.94:
        return symbol
    return f"volume > {rng.randrange(10**6)}" if kind < 0.99 else "class = 'STOCK'"


def stock_event(rng: random.Random) -> dict[str, object]:
    price = rng.uniform(20, 100)
    return {
        "class": "STOCK",
        "symbol": f"S{rng.randrange(100)}",
        "open": price,
        "high": price + rng.uniform(0, 5),
        "low": price - rng.uniform(0, 5),
        "close": price,
        "volume": rng.randrange(10**6),
    }


def box_filter(rng: random.Random) -> str:
    centres = [min(max(rng.gauss(500, 250), 0), 1000) for _ in "abcd"]
    return " AND ".join(
        f"{name} BETWEEN {max(centre - 125, 0)} AND {min(centre + 125, 1000)}"
        for name, centre in zip("abcd", centres, strict=True)
    )


def box_event(rng: random.Random) -> dict[str, object]:
    return {name: rng.uniform(0, 1000) for name in "abcd"}


def assert_exact(engine: Engine, filters: dict[int, Filter], published: list[dict[str, object]]) -> None:
    batch = engine.match_batch(published)
    for event, found in zip(published, batch, strict=True):
        expected = [id_ for id_, filter_ in filters.items() if filter_.matches(event)]
        assert sorted(engine.match(event)) == expected  # type: ignore[type-var]  # they are integers
        assert sorted(engine.match(event)) == expected  # type: ignore[type-var]  # as before, by a selection
        assert sorted(found) == expected  # type: ignore[type-var]  # as above
        assert engine.destinations(event) == {id_ % 16 for id_ in expected}


def test_stock_is_exact_before_and_after_removals() -> None:
    rng = random.Random(1)
    filters = {id_: Filter.parse(stock_filter(rng)) for id_ in range(SUBSCRIPTIONS)}
    published = [stock_event(rng) for _ in range(20)]
    engine = Engine()
    for id_, filter_ in filters.items():
        engine.add(id_, filter_, id_ % 16)
    assert_exact(engine, filters, published)
    for id_ in range(0, SUBSCRIPTIONS, 3):
        engine.remove(id_)
        del filters[id_]
    assert_exact(engine, filters, published)


def test_box_is_exact_while_boxes_come_and_go() -> None:
    rng = random.Random(2)
    filters = {id_: Filter.parse(box_filter(rng)) for id_ in range(SUBSCRIPTIONS)}
    published = [box_event(rng) for _ in range(20)]
    engine = Engine()
    for id_, filter_ in filters.items():
        engine.add(id_, filter_, id_ % 16)
    assert_exact(engine, filters, published)
    for id_ in range(0, SUBSCRIPTIONS, 5):  # dead, but not yet purged
        engine.remove(id_)
        del filters[id_]
    assert engine.stats()["tombstones"]
    assert_exact(engine, filters, published)
    for id_ in range(SUBSCRIPTIONS, SUBSCRIPTIONS + 50):  # waiting, not yet indexed
        filters[id_] = Filter.parse(box_filter(rng))
        engine.add(id_, filters[id_], id_ % 16)
    assert_exact(engine, filters, published)
    for id_ in range(1, SUBSCRIPTIONS, 2):
        if id_ in filters:
            engine.remove(id_)
            del filters[id_]
    assert_exact(engine, filters, published)
    assert engine.stats()["tombstones"] <= SUBSCRIPTIONS
