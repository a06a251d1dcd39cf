"""What a doctor makes of what was seen: each verdict, and what to change."""

from mqloom.core.ids import GatewayId
from mqloom.gateway.doctoring import (
    Examination,
    Finding,
    Permission,
    as_lines,
    as_rows,
    judge_log,
    judge_openness,
    judge_permissions,
    judge_protocol,
    judge_queue,
    judge_session,
)


def test_one_version_of_mqtt_is_enough() -> None:
    assert judge_protocol({"5": "", "3.1.1": ""}).text == "speaks MQTT 5 and 3.1.1"
    assert judge_protocol({"5": "no", "3.1.1": ""}) == Finding("protocol", "ok", "speaks MQTT 3.1.1")
    none = judge_protocol({"5": "it does not answer", "3.1.1": "x"})
    assert (none.verdict, none.text) == ("wrong", "cannot be used: it does not answer")


def test_a_broker_that_forgets_or_drops_is_wrong_and_the_lines_to_change_are_named() -> None:
    unseen = judge_session(True)
    assert unseen.verdict == "note"
    assert "cannot be seen from outside" in unseen.text
    assert "persistence true" in unseen.advice[0]
    assert judge_session(None).verdict == "wrong"
    assert any("persistence true" in advice for advice in judge_session(False).advice)
    kept = judge_queue(2_000, 2_000, 2_000)
    assert kept.verdict == "ok"
    assert "128,000 bytes; a limit above that is not seen: there must be none" in kept.text
    assert "max_queued_messages 0" in kept.text
    dropped = judge_queue(2_000, 1_020, 2_000)
    assert (dropped.verdict, dropped.advice[0]) == ("wrong", "Mosquitto: max_queued_messages 0")
    assert "kept 1,020" in dropped.text
    assert judge_queue(2_000, 100, 100).verdict == "wrong"


def test_what_is_refused_is_wrong_and_what_is_only_granted_is_noted() -> None:
    found = list(
        judge_permissions(
            "gateway west",
            [
                Permission("read", "a/#", "refused"),
                Permission("read", "b/#", "granted"),
                Permission("write", "c", "proven"),
                Permission("write", "d", "unknown"),
                Permission("write", "e", "untried"),
            ],
        )
    )
    assert [finding.verdict for finding in found] == ["wrong", "note", "note", "unknown"]
    assert found[2].text == "not tried, for a probe would be taken for the real thing: write e"
    assert found[0].advice == ("Mosquitto, in its access list: topic read a/#",)
    (well,) = judge_permissions("gateway west", [Permission("write", "c", "proven")])
    assert well.text == "is refused none of the topics that were tried; 1 of 1 proven by a message"


def test_a_log_that_leaves_out_anything_that_is_read_is_wrong_and_what_is_missing_is_named() -> None:
    assert judge_log({"subscribe", "unsubscribe", "notice"}).verdict == "ok"
    assert "nothing would be brought" in judge_log({"notice"}).text
    partly = judge_log({"subscribe"})
    assert (partly.verdict, partly.advice[:2]) == (
        "wrong",
        ("Mosquitto: log_type unsubscribe", "Mosquitto: log_type notice"),
    )


def test_advice_of_a_note_is_printed_as_what_to_check() -> None:
    lines = as_lines("west", Examination("127.0.0.1:1", (judge_session(True),)))
    assert any("check: Mosquitto: persistence true" in line for line in lines)


def test_an_open_broker_is_noted_but_no_promise_is_broken() -> None:
    assert list(judge_openness(False)) == []
    (finding,) = judge_openness(True)
    assert Examination("here", (finding,)).is_well


def test_findings_are_printed_with_what_to_change() -> None:
    examination = Examination("127.0.0.1:1", (judge_protocol({"5": ""}), judge_queue(9, 3, 9)))
    assert as_lines("west", examination) == [
        "west (127.0.0.1:1)",
        "  ok       protocol  speaks MQTT 5",
        "  WRONG    queue     acknowledged 9 messages for a client that was away, and kept 3: it drops past its limits",
        "                     change: Mosquitto: max_queued_messages 0",
        "                     change: Mosquitto: max_queued_bytes 0",
        "                     change: RabbitMQ: no policy with max-length on queues mqtt-subscription-...",
        "                     change: EMQX: mqtt.max_mqueue_len = infinity",
    ]
    rows = as_rows({GatewayId("west"): examination})
    assert rows["well"] is False
