"""Hits, incidents and the shape of the run → what failed, by rules alone.

The rules know roles, strength and order, never names: which wording means which class stands in the taxonomy.

1. A root that names its mechanism (`specific`) beats one that does not, wherever they stand; both beat an echo (`collateral`).
2. Hardware evidence beats what its entry says a hardware fault can look like. Otherwise the earliest in causal order wins.
3. In one chain of exceptions the innermost named mechanism wins; on one line the narrower claim does.
4. A failure after which the same process reported progress, to the end of the log or up to a later failure, was survived: it is not
   this run's failure. Evidence of failing hardware is not forgotten so.
5. A run whose numbers went wrong before a person or the scheduler ended it, or before the program's own check stopped it, failed by
   its numbers. A curve that is merely bad (a plateau, overfitting) ends no run: whatever did comes first.
6. Among generic signs, an exception comes before a line outside any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from trainwreck.diagnosis import ExceptionRecord, Hit, Line, UnknownBecause
from trainwreck.metrics.shape import ERROR_TEXT, Shape
from trainwreck.ordering import Incident
from trainwreck.taxonomy import UNKNOWN, Taxonomy

__all__ = ["MODES", "RULES", "Mode", "Verdict", "decide", "settle"]

Mode = Literal["precise", "balanced", "best-guess"]
MODES: tuple[Mode, ...] = ("precise", "balanced", "best-guess")
PRECISE = 0.9
"""Confidence below which `precise` gives no answer."""

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
"""Reports of progress after a failure that show it was survived."""
UNSURE_REPORTS = 6
"""The same, where it is not certain that it is the failed rank which reports."""
ECHO = 1
"""Greatest strength of what others say of a failure."""
LAST_WORDS = 10
"""Lines with text at the end of a log among which an error counts as its last word."""
ENOUGH_REPORTS = 4
"""Reports of the training loss that make a curve."""
NAMED, GENERIC = 3, 2
"""Strength of a named mechanism, and of a generic sign."""
HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Claim:
    """One class that one incident speaks for."""

    hit: Hit
    incident: Incident
    place: int
    """Position of the incident in causal order."""

    fatal: bool
    """Whether the class ends runs, as its entry says."""

    @property
    def strength(self) -> int:
        """3 for a named mechanism, 2 for a generic sign, 1 and 0 for echoes; numbers that end no run are no more than an echo."""
        if self.hit.label == HEALTHY:
            return -1
        if self.hit.by == "metrics" and not self.fatal:
            return int(self.hit.specific)
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
    echoes: tuple[Hit, ...] = ()


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
    run = _Run(lines, records, hits, found, shape, taxonomy)
    claims: list[Claim] = []
    survived = 0
    for place, incident in enumerate(found):
        own = [h for h in incident.hits if h.role in ("root", "collateral") and h.label not in excluded]
        if own and run.survived(incident):
            survived += 1
            continue
        claims += (Claim(hit, incident, place, _fatal(taxonomy, hit.label)) for hit in own)
    best = _best_of_each(claims)
    wrong_at = min((c.place for c in best if c.hit.by == "metrics" and c.strength == NAMED and c.fatal), default=None)
    ranked = sorted(best, key=lambda claim: _precedence(claim, taxonomy, wrong_at))
    ranked = _hardware_first(ranked, taxonomy)
    if not ranked or ranked[0].hit.label == HEALTHY:
        return [_without_claims(run, hits, precision, survived)]
    earlier = {id(i) for i in found[: ranked[0].place]}
    untold = [i for i in run.unexplained() if id(i) in earlier] if ranked[0].strength <= ECHO else []
    if untold:
        # The failure's own words are there, though no fingerprint knows them: what others said of it later is no better.
        return [_unknown(untold[0], "not_covered", "there is a failure that no fingerprint knows", ranked, precision)]
    verdict = _verdict(ranked[0], ranked, taxonomy, hits, precision)
    others: dict[str, Claim] = {}
    for claim in ranked[1:]:
        if claim.strength == NAMED and claim.hit.label != verdict.label and _another_process(claim, ranked[0], lines):
            others.setdefault(claim.hit.label, claim)
    return [verdict, *(_verdict(claim, ranked, taxonomy, hits, precision) for claim in others.values())]


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


def _precedence(claim: Claim, taxonomy: Taxonomy, wrong_at: int | None) -> tuple[int, int, bool, int, int, int, int]:
    chain = claim.incident.records
    depth = chain.index(claim.hit.exception) if claim.hit.exception in chain else 0
    return (
        -claim.strength,
        _after_the_numbers(claim, taxonomy, wrong_at),
        claim.strength == GENERIC and not chain,
        claim.place,
        depth,
        -claim.hit.conditions,
        claim.hit.start - claim.hit.end,
    )


def _hardware_first(ranked: list[Claim], taxonomy: Taxonomy) -> list[Claim]:
    """Put named hardware evidence before what a hardware fault looks like from software, wherever in the log each stands."""
    if not ranked or not taxonomy.entries[ranked[0].hit.label].content.get("hardware_can_cause"):
        return ranked

    def is_hardware(claim: Claim) -> bool:
        return claim.strength == NAMED and taxonomy.entries[claim.hit.label].layer == "hardware"

    return sorted(ranked, key=lambda claim: not is_hardware(claim))  # stable: within both the order stays


def _after_the_numbers(claim: Claim, taxonomy: Taxonomy, wrong_at: int | None) -> int:
    """Order numbers against text (rule 5): 0 for text with a cause of its own, 1 for numbers, 2 for what follows from them.

    `wrong_at` is the place in causal order at which the numbers went wrong for good, if they did.
    """
    if claim.hit.by == "metrics":
        return 1
    family = taxonomy.entries[claim.hit.label].family
    return 2 if family in ("python", "process") and wrong_at is not None and claim.place > wrong_at else 0


def _fatal(taxonomy: Taxonomy, label: str) -> bool:
    return taxonomy.entries[label].content.get("severity") == "fatal"


class _Run:
    """What of a run tells whether a failure was survived."""

    def __init__(
        self,
        lines: Sequence[Line],
        records: Sequence[ExceptionRecord],
        hits: Sequence[Hit],
        found: Sequence[Incident],
        shape: Shape,
        taxonomy: Taxonomy,
    ) -> None:
        self.lines, self.records, self.shape, self.found = lines, records, shape, found
        self._taxonomy = taxonomy
        well = [hit.index for hit in hits if hit.label == HEALTHY and hit.role == "confirms"]
        if well and any(ERROR_TEXT.search(line.text[:500]) for line in lines[max(well) + 1 :]):
            well = []  # what was said to have ended well was a stage of it
        self.progress = sorted({*shape.reports_at, *well})
        """Lines that show a process going on, or ending well."""
        self.ended_well = bool(well)
        self.goes_on = bool(shape.features.get("ends_in_progress") or well)
        """Whether the log ends in progress, or well."""
        self.odd_curve = (
            bool(shape.features.get("ends_in_progress") and shape.features.get("reports", 0) >= ENOUGH_REPORTS)
            and not well
            and any(f.metrics for f in taxonomy.entries[HEALTHY].fingerprints)
            and not any(hit.label == HEALTHY and hit.by == "metrics" for hit in hits)
        )
        """Whether the log ends in progress, but no condition on its series says that it goes well."""
        self._failures = sorted(
            i.index
            for i in found
            if any(h.role == "root" and h.by == "pattern" for h in i.hits)
            or (i.records and not any(h.role == "collateral" for h in i.hits))
        )
        self._survived: dict[int, bool] = {}

    def survived(self, incident: Incident) -> bool:
        """Whether the process of `incident` went on after it, to the end of the log or up to a later failure."""
        if id(incident) not in self._survived:
            self._survived[id(incident)] = self._went_on(incident)
        return self._survived[id(incident)]

    def _went_on(self, incident: Incident) -> bool:
        if any(hit.by != "pattern" for hit in incident.hits):
            return False
        if any(h.specific and self._taxonomy.entries[h.label].layer == "hardware" for h in incident.hits):
            return False
        last = max([incident.index, *(self.records[number].members[-1] for number in incident.records)])
        own = (i for i in self.progress[bisect_right(self.progress, last) :] if self._same_process(i, last))
        after = list(islice(own, UNSURE_REPORTS))
        # Where only tracebacks carry a rank, the next few reports may be those of the others before they notice.
        unsure = any(self.lines[index].rank is None for index in after) and self.lines[last].rank is not None
        if len(after) < (UNSURE_REPORTS if unsure and not self.ended_well else PROGRESS_REPORTS):
            return False
        latest = self._failures[-1] if self._failures else -1
        return latest > after[PROGRESS_REPORTS - 1] or self.goes_on

    def unexplained(self) -> list[Incident]:
        """Exceptions that stand and in which no fingerprint matched."""
        return [
            i
            for i in self.found
            if i.records and not any(h.role in ("root", "collateral") for h in i.hits) and not self.survived(i)
        ]

    def last_error(self) -> int | None:
        """The last line that its logger called an error, if the log ends soon after it."""
        texts = 0
        for index in range(len(self.lines) - 1, -1, -1):
            texts += bool(self.lines[index].text.strip())
            if texts > LAST_WORDS or index in self.progress[-1:]:
                return None
            if self.lines[index].level in ("ERROR", "CRITICAL"):
                return index
        return None

    def _same_process(self, index: int, other: int) -> bool:
        here, there = self.lines[index], self.lines[other]
        return (
            here.file == there.file
            and (there.rank is None or here.rank in (there.rank, None))
            and (there.local_rank is None or here.local_rank in (there.local_rank, None))
            and (not there.speaker or here.speaker in (there.speaker, ""))
        )


def _another_process(claim: Claim, answer: Claim, lines: Sequence[Line]) -> bool:
    here, there = lines[claim.hit.index], lines[answer.hit.index]
    return claim.place != answer.place and (here.file, here.rank, here.speaker) != (
        there.file,
        there.rank,
        there.speaker,
    )


def _verdict(
    claim: Claim,
    ranked: Sequence[Claim],
    taxonomy: Taxonomy,
    hits: Sequence[Hit],
    precision: Mapping[str, float],
) -> Verdict:
    hit = claim.hit
    rivals = [c for c in ranked if c.hit.label != hit.label]
    contested = any(c.strength == claim.strength == NAMED and c.hit.by != "metrics" for c in rivals)
    if hit.by == "metrics":
        rule = "metrics"
    elif claim.strength == NAMED:
        rule = "contested" if contested else "specific"
    else:
        rule = "general" if claim.strength == GENERIC else "echo"
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
        echoes=tuple(h for h in hits if h.label != hit.label and _follows(h, hit)),
    )


def _follows(other: Hit, hit: Hit) -> bool:
    """Whether `other` reads as a consequence of `hit`: an echo, or a generic sign further down."""
    return other.role == "collateral" or (other.role == "root" and not other.specific and other.index > hit.index)


def settle(verdict: Verdict, mode: Mode, precision: Mapping[str, float]) -> Verdict:
    """Return what `mode` makes of a verdict.

    `balanced` leaves it. `precise` answers `unknown` below a confidence of `PRECISE`, with the answer as first candidate. `best-guess`
    answers with the first candidate of an `unknown` that has any.
    """
    if mode == "precise" and verdict.label != UNKNOWN and verdict.confidence < PRECISE:
        return replace(
            verdict,
            label=UNKNOWN,
            rule="abstain",
            confidence=precision.get("abstain", 0.5),
            hit=None,
            alternatives=((verdict.label, verdict.confidence), *verdict.alternatives),
            unknown_because="ambiguous",
            because=f"the surest answer, {verdict.label}, is right in {verdict.confidence:.0%} only",
        )
    if mode == "best-guess" and verdict.label == UNKNOWN and verdict.alternatives:
        (label, confidence), *others = verdict.alternatives
        return replace(
            verdict,
            label=label,
            confidence=confidence,
            hit=None,
            alternatives=tuple(others),
            unknown_because=None,
            because=f"a guess was asked for; {verdict.because}",
        )
    return verdict


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
    if loser.place < winner.place:
        return f"{name} comes earlier, but what decided explains more"
    if loser.place > winner.place:
        order = "by printed times" if winner.incident.by_time else "in the log"
        return f"{name} comes later {order}"
    return f"{name} speaks of the same failure but is the broader claim"


def _without_claims(run: _Run, hits: Sequence[Hit], precision: Mapping[str, float], survived: int) -> Verdict:
    unexplained = run.unexplained()
    doubtful = run.odd_curve and not unexplained
    if run.goes_on and not unexplained and not doubtful:
        return _healthy(run, hits, precision, survived)
    reason: UnknownBecause
    if doubtful:
        reason, because = "ambiguous", "the run goes on, but its curve is not one of a run that goes well"
    elif unexplained:
        reason, because = "not_covered", "there is a failure that no fingerprint knows"
    elif (last := run.last_error()) is not None:
        reason, because = "not_covered", "the log ends with an error that no fingerprint knows"
        verdict = _unknown(None, reason, because, (), precision)
        return replace(verdict, index=last)
    elif run.records or hits or run.progress or any(line.rank is not None or line.level for line in run.lines):
        reason, because = "no_evidence", "nothing in the log shows a failure, and nothing shows that the run goes on"
    else:
        reason, because = "not_a_job_log", "nothing in the text is what a training or inference job prints"
    incident = unexplained[0] if unexplained else None
    verdict = _unknown(incident, reason, because, (), precision)
    return replace(verdict, alternatives=((HEALTHY, round((1 - verdict.confidence) / 2, 4)),)) if doubtful else verdict


def _unknown(
    incident: Incident | None,
    reason: UnknownBecause,
    because: str,
    rivals: Sequence[Claim],
    precision: Mapping[str, float],
) -> Verdict:
    confidence = precision.get("abstain", 0.5)
    return Verdict(
        label=UNKNOWN,
        rule="abstain",
        confidence=confidence,
        source="fingerprint",
        index=incident.index if incident else None,
        incident=incident,
        alternatives=_alternatives(rivals, 1.0 - confidence) if rivals else (),
        unknown_because=reason,
        because=because,
        echoes=tuple(c.hit for c in rivals if c.hit.role == "collateral"),
    )


def _healthy(run: _Run, hits: Sequence[Hit], precision: Mapping[str, float], survived: int) -> Verdict:
    because = "the log ends in progress or a normal end, and no failure in it stands"
    if survived:
        because += f"; {survived} earlier failure(s) were followed by progress"
    by_numbers = next((hit for hit in hits if hit.label == HEALTHY and hit.by == "metrics"), None)
    rule = "metrics" if by_numbers else "progress"
    return Verdict(
        label=HEALTHY,
        rule=rule,
        confidence=precision.get(rule, 0.5),
        source="metrics" if run.shape.features.get("ends_in_progress") else "fingerprint",
        index=None,
        hit=None
        if run.ended_well
        else by_numbers,  # what to do then depends on whether the log says that it is the end
        because=because,
        supporting=tuple(hit for hit in hits if hit.label == HEALTHY),
    )
