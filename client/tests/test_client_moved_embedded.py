"""The client of an application is moved between embedded brokers, under load: it gets everything once."""

from pathlib import Path

from mqloom.lab.demo_town import EAST, WEST, numbers, running_town, until

MOVES = 6


def test_under_load_it_is_moved_to_and_fro_between_embedded_brokers_and_misses_nothing(tmp_path: Path) -> None:
    with running_town(tmp_path, is_embedded=True) as town:
        mover, came = town.client(client_id="mover", clean_session=False)
        with town.publishing() as sent:
            for to in (EAST, WEST) * (MOVES // 2):
                assert town.migrate("mover", to) == 0
                until(lambda to=to: mover._port == town.ports[to] and mover.is_connected(), "it is there")  # type: ignore[misc]
        assert len(sent) > 100
        assert numbers(came, sent) == sent
