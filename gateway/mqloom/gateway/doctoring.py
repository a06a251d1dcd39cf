"""What a doctor makes of what was seen at a broker: well, or not, and what to change."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.core.limits import DOCTOR_MESSAGE_BYTES, READ_BYTES_MAX

Verdict = Literal["ok", "wrong", "unknown", "note"]

LOG_TYPES: Final = ("subscribe", "unsubscribe", "notice")
"""What of Mosquitto's log the gateway reads."""

PERSISTENCE: Final = (
    "Mosquitto: persistence true, and persistence_location a folder that it may write",
    "RabbitMQ: mqtt.subscription_ttl large enough, or sessions end after a day",
)
QUEUE: Final = (
    "Mosquitto: max_queued_messages 0",
    "Mosquitto: max_queued_bytes 0",
    "RabbitMQ: no policy with max-length on queues mqtt-subscription-...",
    "EMQX: mqtt.max_mqueue_len = infinity",
)
LOG: Final = (
    "Mosquitto: log_dest topic",
    "Mosquitto: log_type subscribe, log_type unsubscribe and log_type notice, a line each",
    "Mosquitto, in its access list, for the gateway: topic read $SYS/broker/#",
)
SIZE_MARGIN_BYTES: Final = 128 * 1024
"""What a frame of one publication has besides its payload: topic, ids, seal, and properties of the usual size."""
OPEN: Final = ("`mqloom config mosquitto` writes accounts and an access list",)


class Finding(NamedTuple):
    """One thing that was examined at a broker: what was found, and what to change if it is wrong."""

    subject: str
    verdict: Verdict
    text: str
    advice: tuple[str, ...] = ()


class Permission(NamedTuple):
    """What came of trying one topic. Granted: the broker says yes, but that alone proves nothing with every broker.

    Untried: a probe would be taken for the real thing.
    """

    what: Literal["read", "write"]
    topics: str
    outcome: Literal["proven", "granted", "refused", "unknown", "untried"]


class Examination(NamedTuple):
    """All findings at one broker."""

    address: str
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.verdict != "wrong" for finding in self.findings)


def judge_protocol(refusals: Mapping[str, str]) -> Finding:
    """Judge by why each version of MQTT is refused; empty: it is spoken."""
    spoken = [version for version, refusal in refusals.items() if not refusal]
    if spoken:
        return Finding("protocol", "ok", f"speaks MQTT {' and '.join(spoken)}")
    advice = ("is it running, and are `host`, `port`, `username` and `password_env` in the configuration right?",)
    return Finding("protocol", "wrong", f"cannot be used: {next(iter(refusals.values()))}", advice)


def judge_session(is_kept: bool | None) -> Finding:
    """Judge by whether the broker knew a client of before."""
    if is_kept is None:
        return Finding("sessions", "wrong", "did not answer while sessions were tried", ("try again; see its log",))
    if not is_kept:
        text = "forgets a client as soon as it is away: what is published meanwhile is lost to it"
        return Finding("sessions", "wrong", text, PERSISTENCE)
    unseen = "whether they survive its restart cannot be seen from outside"
    return Finding("sessions", "note", f"keeps the sessions of clients that are away; {unseen}", PERSISTENCE)


def judge_size(packet_bytes_max: int, payload_bytes_max: int) -> Iterable[Finding]:
    """Judge by how large a packet the broker takes, if it says so."""
    needed = payload_bytes_max + SIZE_MARGIN_BYTES
    if not packet_bytes_max:
        return
    if packet_bytes_max >= needed:
        yield Finding("size", "ok", f"takes packets of up to {packet_bytes_max:,} bytes")
        return
    text = f"takes packets of up to {packet_bytes_max:,} bytes, and payloads may have {payload_bytes_max:,}"
    advice = [f"Mosquitto: max_packet_size {READ_BYTES_MAX}"]
    if packet_bytes_max > SIZE_MARGIN_BYTES:
        smaller = packet_bytes_max - SIZE_MARGIN_BYTES
        advice.append(f"or, in [federation]: payload_bytes_max = {smaller}; larger ones then stay at home")
    yield Finding("size", "wrong", f"{text}: larger ones get lost on their way", tuple(advice))


def judge_queue(sent: int, kept: int, acknowledged: int) -> Finding:
    """Judge by how many of the messages for a client that was away came back."""
    if acknowledged < sent:
        text = f"acknowledged {acknowledged:,} of {sent:,} messages, and then no more"
        return Finding(
            "queue", "wrong", text, ("may its account write below mqloom/v1/ID/park/, and is its disk full?",)
        )
    if kept < sent:
        text = f"acknowledged {sent:,} messages for a client that was away, and kept {kept:,}: it drops past its limits"
        return Finding("queue", "wrong", text, QUEUE)
    text = f"kept all {sent:,} messages for a client that was away, {sent * DOCTOR_MESSAGE_BYTES:,} bytes"
    return Finding(
        "queue", "ok", f"{text}; a limit above that is not seen: there must be none ({', '.join(QUEUE[:2])})"
    )


def judge_permissions(subject: str, permissions: Sequence[Permission]) -> Iterable[Finding]:
    """Judge by what came of each topic."""
    refused = [each for each in permissions if each.outcome == "refused"]
    if refused:
        text = "is refused to " + "; ".join(f"{each.what} {each.topics}" for each in refused)
        advice = tuple(f"Mosquitto, in its access list: topic {each.what} {each.topics}" for each in refused)
        yield Finding(subject, "wrong", text, advice)
    else:
        proven = sum(each.outcome == "proven" for each in permissions)
        text = f"is refused none of the topics that were tried; {proven} of {len(permissions)} proven by a message"
        yield Finding(subject, "ok", text)
    granted = [each for each in permissions if each.outcome == "granted"]
    if granted:
        names = ", ".join(each.topics for each in granted)
        text = f"the broker says yes to {names}, but only what comes would prove that"
        yield Finding(subject, "note", text)
    untried = [each for each in permissions if each.outcome == "untried"]
    if untried:
        names = "; ".join(f"{each.what} {each.topics}" for each in untried)
        yield Finding(subject, "note", f"not tried, for a probe would be taken for the real thing: {names}")
    unknown = [each for each in permissions if each.outcome == "unknown"]
    if unknown:
        yield Finding(subject, "unknown", "nothing can be seen of " + ", ".join(each.topics for each in unknown))


def judge_log(told: Collection[str]) -> Finding:
    """Judge by which of LOG_TYPES the log of a Mosquitto has told that the gateway reads."""
    if "subscribe" not in told:
        text = "its log does not tell what they subscribe to: nothing would be brought to them"
        return Finding("plain clients", "wrong", text, LOG)
    missing = [each for each in LOG_TYPES if each not in told]
    if missing:
        text = f"its log does not tell {' and '.join(missing)}: what they wanted once would be brought to them for ever"
        return Finding("plain clients", "wrong", text, (*(f"Mosquitto: log_type {each}" for each in missing), LOG[2]))
    return Finding("plain clients", "ok", "its log tells what they subscribe to, and when they end that or leave")


def judge_openness(is_open: bool) -> Iterable[Finding]:
    """Judge by whether somebody without an account could write to a link."""
    if is_open:
        yield Finding("strangers", "note", "anybody may write to links without an account", OPEN)


def as_lines(broker: str, examination: Examination) -> list[str]:
    """Return the findings for people."""
    lines = [f"{broker} ({examination.address})"]
    width = max((len(finding.subject) for finding in examination.findings), default=0)
    for finding in examination.findings:
        lines.append(
            f"  {finding.verdict.upper() if finding.verdict == 'wrong' else finding.verdict:7}  "
            f"{finding.subject:{width}}  {finding.text}"
        )
        if finding.verdict in ("wrong", "note"):
            what = "change" if finding.verdict == "wrong" else "check"
            lines += [f"  {'':7}  {'':{width}}  {what}: {advice}" for advice in finding.advice]
    return lines


def as_rows(examinations: Mapping[GatewayId, Examination]) -> dict[str, object]:
    """Return all of it for programs."""
    return {
        "well": all(each.is_well for each in examinations.values()),
        "brokers": {
            broker: {
                "address": each.address,
                "well": each.is_well,
                "findings": [
                    {
                        "subject": finding.subject,
                        "verdict": finding.verdict,
                        "text": finding.text,
                        "advice": list(finding.advice),
                    }
                    for finding in each.findings
                ],
            }
            for broker, each in examinations.items()
        },
    }
