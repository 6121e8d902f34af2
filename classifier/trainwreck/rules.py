"""Hits, incidents and the shape of the run → what failed, by rules alone.

The rules know roles, strength and order, never names: which wording means which class stands in the taxonomy.

1. A root that names its mechanism (`specific`) beats one that does not, wherever they stand; both beat an echo (`collateral`).
2. Hardware evidence beats what a hardware fault looks like from software. Otherwise the earliest in causal order wins.
3. In one chain of exceptions the innermost named mechanism wins; on one line the narrower claim does.
4. A failure followed by progress to the end of the log was survived: it is not this run's failure.
5. A run whose numbers went wrong before a person or the scheduler ended it, or before the program's own check stopped it, failed by
   its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainwreck.diagnosis import ExceptionRecord, Hit, Line, UnknownBecause
from trainwreck.metrics.shape import Shape
from trainwreck.ordering import Incident
from trainwreck.taxonomy import UNKNOWN, Taxonomy

__all__ = ["RULES", "Verdict", "decide"]

RULES = (
    "specific",  # a named mechanism, nothing specific against it
    "contested",  # a named mechanism, another one named elsewhere in the log
    "general",  # a generic sign only
    "echo",  # only what other processes say of the failure
    "metrics",  # the numbers alone
    "progress",  # no failure, and the run goes on or ended well
    "abstain",  # no answer
)
"""What decided. The bundle holds the measured precision of each."""

PROGRESS_REPORTS = 2
"""Reports of the training loss after a failure that show it was survived."""
HEALTHY = "healthy"
SYMPTOMS_OF_HARDWARE = ("gpu", "distributed", "process")
"""Families whose failures a hardware fault can cause; a full memory or a wrong shape it cannot."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One class that one incident speaks for."""

    hit: Hit
    incident: Incident
    place: int
    """Position of the incident in causal order."""

    @property
    def strength(self) -> int:
        return (2 if self.hit.role == "root" else 0) + self.hit.specific


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say."""

    label: str
    rule: str
    confidence: float
    source: Literal["fingerprint", "metrics"]
    index: int | None
    """Line of the first failure."""
    hit: Hit | None = None
    incident: Incident | None = None
    alternatives: tuple[tuple[str, float], ...] = ()
    unknown_because: UnknownBecause | None = None
    because: str = ""
    runner_up: str | None = None
    runner_up_lost_because: str = ""
    supporting: tuple[Hit, ...] = ()
    echoes: tuple[Hit, ...] = field(default=())


def decide(
    taxonomy: Taxonomy,
    lines: Sequence[Line],
    records: Sequence[ExceptionRecord],
    hits: Sequence[Hit],
    found: Sequence[Incident],
    shape: Shape,
    precision: Mapping[str, float],
) -> list[Verdict]:
    """Return the answer first, then other failures that it does not explain (named mechanisms of other processes), by causal order."""
    excluded = {hit.label for hit in hits if hit.role == "excludes"}
    progress = _progress(hits, shape)
    claims: list[Claim] = []
    survived = 0
    for place, incident in enumerate(found):
        own = [h for h in incident.hits if h.role in ("root", "collateral") and h.label not in excluded]
        if own and _survived(incident, records, progress):
            survived += 1
            continue
        claims += (Claim(hit, incident, place) for hit in own)
    ranked = sorted(_best_of_each(claims), key=lambda claim: _precedence(claim, taxonomy, shape))
    ranked = _hardware_first(ranked, taxonomy)
    if not ranked:
        return [_without_claims(lines, records, hits, found, shape, progress, precision, survived)]
    verdict = _verdict(ranked[0], ranked, taxonomy, hits, found, precision)
    others = [
        _verdict(claim, ranked, taxonomy, hits, found, precision)
        for claim in ranked[1:]
        if claim.strength == 3 and claim.hit.label != verdict.label and _another_process(claim, ranked[0], lines)
    ]
    return [verdict, *_first_of_each_label(others)]


def _best_of_each(claims: Sequence[Claim]) -> list[Claim]:
    """Of each incident and class, the claim that says most."""
    best: dict[tuple[int, str], Claim] = {}
    for claim in claims:
        key = (claim.place, claim.hit.label)
        if key not in best or _narrowness(claim) > _narrowness(best[key]):
            best[key] = claim
    return list(best.values())


def _narrowness(claim: Claim) -> tuple[int, int, int]:
    return (claim.strength, claim.hit.conditions, claim.hit.end - claim.hit.start)


def _precedence(claim: Claim, taxonomy: Taxonomy, shape: Shape) -> tuple[int, int, int, int, int, int]:
    chain = claim.incident.records
    depth = chain.index(claim.hit.exception) if claim.hit.exception in chain else 0
    return (
        -claim.strength,
        _after_the_numbers(claim, taxonomy, shape),
        claim.place,
        depth,
        -claim.hit.conditions,
        claim.hit.start - claim.hit.end,
    )


def _hardware_first(ranked: list[Claim], taxonomy: Taxonomy) -> list[Claim]:
    """Put named hardware evidence before what a hardware fault looks like from software, wherever in the log each stands."""
    if not ranked or taxonomy.entries[ranked[0].hit.label].family not in SYMPTOMS_OF_HARDWARE:
        return ranked
    hardware = [c for c in ranked if c.strength == 3 and taxonomy.entries[c.hit.label].layer == "hardware"]
    return hardware + [c for c in ranked if c not in hardware]


def _after_the_numbers(claim: Claim, taxonomy: Taxonomy, shape: Shape) -> int:
    """Order numbers against text (rule 5): 0 for text with a cause of its own, 1 for numbers, 2 for what follows from them."""
    entry = taxonomy.entries[claim.hit.label]
    if claim.hit.by == "metrics":
        return 1 if entry.content.get("severity") == "fatal" else 3
    if entry.family in ("python", "process") and shape.features.get("nonfinite"):
        return 2
    return 0


def _progress(hits: Sequence[Hit], shape: Shape) -> list[int]:
    """Lines that show the run going on or ending well, if that is how the log ends; else nothing."""
    ended_well = [hit.index for hit in hits if hit.label == HEALTHY and hit.role == "confirms"]
    if shape.features.get("ends_in_progress"):
        return sorted([*shape.reports_at[:], *ended_well])
    return sorted(ended_well)


def _survived(incident: Incident, records: Sequence[ExceptionRecord], progress: Sequence[int]) -> bool:
    if any(hit.by == "metrics" for hit in incident.hits):
        return False
    last = max([incident.index, *(records[number].members[-1] for number in incident.records)])
    return sum(index > last for index in progress) >= PROGRESS_REPORTS


def _another_process(claim: Claim, answer: Claim, lines: Sequence[Line]) -> bool:
    here, there = lines[claim.hit.index], lines[answer.hit.index]
    return claim.place != answer.place and (here.file, here.rank, here.speaker) != (
        there.file,
        there.rank,
        there.speaker,
    )


def _first_of_each_label(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return list({verdict.label: verdict for verdict in reversed(verdicts)}.values())[::-1]


def _verdict(
    claim: Claim,
    ranked: Sequence[Claim],
    taxonomy: Taxonomy,
    hits: Sequence[Hit],
    found: Sequence[Incident],
    precision: Mapping[str, float],
) -> Verdict:
    hit = claim.hit
    rivals = [c for c in ranked if c.hit.label != hit.label]
    contested = any(c.strength == claim.strength == 3 and c.hit.by != "metrics" for c in rivals)
    if hit.by == "metrics":
        rule = "metrics"
    elif claim.strength == 3:
        rule = "contested" if contested else "specific"
    else:
        rule = "general" if claim.strength == 2 else "echo"
    confidence = precision.get(rule, 0.5)
    alternatives = _alternatives(rivals, 1.0 - confidence)
    unknown = hit.label == UNKNOWN
    return Verdict(
        label=hit.label,
        rule=rule,
        confidence=confidence,
        source="metrics" if hit.by == "metrics" else "fingerprint",
        index=claim.incident.index if claim.incident.records and _in_root(claim) else hit.index,
        hit=hit,
        incident=claim.incident,
        alternatives=alternatives,
        unknown_because="not_covered" if unknown else None,
        because=_because(claim, rule),
        runner_up=alternatives[0][0] if alternatives else None,
        runner_up_lost_because=_lost(claim, rivals[0], taxonomy) if rivals else "",
        supporting=tuple(
            h for h in hits if h.label == hit.label and h is not hit and h.role in ("root", "confirms", "collateral")
        ),
        echoes=tuple(h for h in hits if h.role == "collateral" and h.label != hit.label),
    )


def _in_root(claim: Claim) -> bool:
    return claim.hit.exception == claim.incident.records[0]


def _alternatives(rivals: Sequence[Claim], mass: float) -> tuple[tuple[str, float], ...]:
    """Share what the answer leaves among the other claims, by strength."""
    weight: dict[str, float] = {}
    for claim in rivals:
        weight[claim.hit.label] = max(weight.get(claim.hit.label, 0.0), 0.5 ** (3 - claim.strength))
    # Something that no claim names is as likely as the strongest of them.
    total = sum(weight.values()) + max(weight.values(), default=1.0)
    ranked = sorted(weight.items(), key=lambda item: -item[1])
    return tuple((label, round(mass * part / total, 4)) for label, part in ranked[:5])


def _because(claim: Claim, rule: str) -> str:
    order = "printed times" if claim.incident.by_time else "the order of the log"
    name = claim.hit.fingerprint
    return {
        "specific": f"fingerprint {name} names the mechanism, and nothing else in the log does",
        "contested": f"fingerprint {name} names the mechanism, and comes first by {order}",
        "general": f"fingerprint {name} is a generic sign, and nothing in the log names a mechanism",
        "echo": f"fingerprint {name} is what other processes say of the failure; its own words are not in the log",
        "metrics": f"the metric series satisfy {name}",
    }[rule]


def _lost(winner: Claim, loser: Claim, taxonomy: Taxonomy) -> str:
    name = f"fingerprint {loser.hit.fingerprint}"
    if loser.strength < winner.strength:
        return f"{name} is a weaker sign: " + ("an echo" if loser.hit.role == "collateral" else "it names no mechanism")
    if taxonomy.entries[winner.hit.label].layer == "hardware" and loser.place < winner.place:
        return f"{name} is a software symptom, and there is hardware evidence"
    if loser.place != winner.place:
        order = "by printed times" if winner.incident.by_time else "in the log"
        return f"{name} comes later {order}"
    return f"{name} speaks of the same failure but is the broader claim"


def _without_claims(
    lines: Sequence[Line],
    records: Sequence[ExceptionRecord],
    hits: Sequence[Hit],
    found: Sequence[Incident],
    shape: Shape,
    progress: Sequence[int],
    precision: Mapping[str, float],
    survived: int,
) -> Verdict:
    unexplained = [i for i in found if i.records and not _survived(i, records, progress)]
    ended_well = [hit for hit in hits if hit.label == HEALTHY and hit.role in ("confirms", "root")]
    if progress and not unexplained:
        because = "the log ends in progress or a normal end, and no failure in it stands"
        if survived:
            because += f"; {survived} earlier failure(s) were followed by progress"
        return Verdict(
            label=HEALTHY,
            rule="progress",
            confidence=precision.get("progress", 0.5),
            source="metrics" if shape.features.get("ends_in_progress") else "fingerprint",
            index=None,
            because=because,
            supporting=tuple(ended_well),
        )
    reason: UnknownBecause
    if unexplained:
        reason, because = "not_covered", "there is a failure that no fingerprint knows"
    elif records or hits or shape.reports_at or any(line.rank is not None or line.level for line in lines):
        reason, because = "no_evidence", "nothing in the log shows a failure, and nothing shows that the run goes on"
    else:
        reason, because = "not_a_job_log", "nothing in the text is what a training or inference job prints"
    return Verdict(
        label=UNKNOWN,
        rule="abstain",
        confidence=precision.get("abstain", 0.5),
        source="fingerprint",
        index=unexplained[0].index if unexplained else None,
        incident=unexplained[0] if unexplained else None,
        unknown_because=reason,
        because=because,
    )
