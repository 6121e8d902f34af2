"""The left edge of a log line: timestamps, ranks, hosts and levels, peeled off until the message begins.

Launchers, schedulers and loggers each put something in front of a line, and they nest:
`[default1]:[rank1]:[E1130 12:00:00 x.cpp:1] `.
Every rule here looks at one position, matches one such piece there and says where it ends; a rule that is not sure
peels nothing, because a word lost from the message costs more than a prefix that stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone

__all__ = ["UNKNOWN_DAY", "UNKNOWN_YEAR", "Prefix", "level_name", "read_time", "split_prefix"]

UNKNOWN_YEAR = 1904
"""Year of a time that was printed without one (a leap year, so that 29 February is valid)."""
UNKNOWN_DAY = date(1900, 1, 1)
"""Day of a time that was printed as a clock only."""

_MAX_PIECES = 12
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_WEEKDAYS = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

_LEVELS = {
    **dict.fromkeys(("T", "D", "V", "TRACE", "DEBUG", "VERBOSE"), "DEBUG"),
    **dict.fromkeys(("I", "N", "INFO", "NOTICE", "SUCCESS", "INFORMATION"), "INFO"),
    **dict.fromkeys(("W", "WARN", "WARNING"), "WARNING"),
    **dict.fromkeys(("E", "ERR", "ERROR"), "ERROR"),
    **dict.fromkeys(("F", "C", "FATAL", "CRITICAL", "CRIT", "EMERGENCY", "ALERT", "PANIC", "SEVERE"), "CRITICAL"),
}
_LEVEL = "TRACE|DEBUG|VERBOSE|INFO|NOTICE|SUCCESS|WARNING|WARN|ERROR|ERR|CRITICAL|FATAL"


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stood left of the message, and the message itself with its own indentation."""

    text: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """As printed; in `UNKNOWN_YEAR` when no year was printed, on `UNKNOWN_DAY` when only a clock was."""
    level: str | None = None
    speaker: str = ""


class _Found:
    """What the rules have gathered so far."""

    __slots__ = ("host", "level", "local_rank", "rank", "speakers", "time")

    def __init__(self) -> None:
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.host: str | None = None
        self.time: datetime | None = None
        self.level: str | None = None
        self.speakers: list[str] = []

    def at_time(self, time: datetime | None) -> None:
        """Take `time`, unless one that says more is known: a collector's full date beats a logger's clock."""
        if time is not None and (self.time is None or (self.time.year < 1970 and time.year >= self.time.year)):
            self.time = time

    def spoken_by(self, name: str) -> None:
        if name and name not in self.speakers:
            self.speakers.append(name)

    def from_host(self, name: str) -> None:
        self.host = name
        self.spoken_by(name)

    def from_rank(self, rank: str) -> None:
        self.rank = int(rank)
        self.spoken_by(f"rank{self.rank}")

    def logged(self) -> bool:
        """Tell whether a logger has spoken: brackets behind a time or a level are its own, not the message's."""
        return self.time is not None or self.level is not None


def level_name(word: str) -> str | None:
    """Return the level that `word` stands for (`W`, `warn`, `Fatal` ...), or None."""
    return _LEVELS.get(word.strip().upper())


# --- times -----------------------------------------------------------------------------------------------------------

_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d)(?!\w))?"
_YMD = re.compile(rf"(\d{{4}})[-/](\d\d)[-/](\d\d)(?:T|,? {{1,2}}|[-_,]){_CLOCK}{_ZONE}(?!\d)")
_DAY_ONLY = re.compile(rf"\d{{4}}-\d\d-\d\d(?=\s+(?:\||(?:{_LEVEL})\b)|\s+\w+:)")
_MDY = re.compile(rf"(\d\d)/(\d\d)/(\d{{4}})(?:,? |-){_CLOCK}(?!\d)")
_YYMD = re.compile(rf"(\d\d)/(\d\d)/(\d\d) {_CLOCK}(?!\d)")
_MD = re.compile(rf"(\d\d)[-/](\d\d) {_CLOCK}(?!\d)")
_CLOCK_ONLY = re.compile(rf"{_CLOCK}(?![\d:])")
_NAMED = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2})"
    rf"(?: (\d{{4}}))? {_CLOCK}(?: (\d{{4}}))?(?![\d:])"
)
_EPOCH = re.compile(r"1[3-9]\d{8}(?:\.\d{1,9})?(?= [A-Za-z])")


def _moment(
    year: str | int, month: str | int, day: str | int, clock: tuple[str, ...], zone: str | None = None
) -> datetime | None:
    hour, minute, second, fraction = clock
    month, day = int(month), int(day)
    if month > 12:  # day first, as in most of the world
        month, day = day, month
    try:
        micros = int((fraction or "0")[:6].ljust(6, "0"))
        moment = datetime(int(year), month, day, int(hour), int(minute), min(int(second), 59), micros)
        if not zone:
            return moment
        if zone in ("Z", "UTC", "GMT"):
            return moment.replace(tzinfo=UTC)
        digits = zone[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))
    except ValueError:
        return None


def _stamp(text: str, at: int) -> tuple[int, datetime | None] | None:
    """Return where the time that begins at `at` ends and what it says, or None when there is none."""
    third, fifth = text[at + 2 : at + 3], text[at + 4 : at + 5]
    if fifth in ("-", "/") and (m := _YMD.match(text, at)):
        return m.end(), _moment(m[1], m[2], m[3], m.groups()[3:7], m[8])
    if fifth == "-" and (m := _DAY_ONLY.match(text, at)):
        return m.end(), None
    if third == "/":
        if m := _MDY.match(text, at):
            return m.end(), _moment(m[3], m[1], m[2], m.groups()[3:])
        if m := _YYMD.match(text, at):
            return m.end(), _moment(2000 + int(m[1]), m[2], m[3], m.groups()[3:])
    if third in ("/", "-") and (m := _MD.match(text, at)):
        return m.end(), _moment(UNKNOWN_YEAR, m[1], m[2], m.groups()[2:])
    if third == ":" and (m := _CLOCK_ONLY.match(text, at)):
        return m.end(), _moment(UNKNOWN_DAY.year, 1, 1, m.groups())
    if text[at : at + 1].isalpha() and (m := _NAMED.match(text, at)):
        return m.end(), _moment(m[3] or m[8] or UNKNOWN_YEAR, _MONTHS[m[1]], m[2], m.groups()[3:7])
    return None


def read_time(value: object) -> datetime | None:
    """Return the time that a structured record holds: ISO 8601, a logger's form, or Unix time in s, ms, us or ns."""
    if isinstance(value, str):
        stamp = _stamp(value.strip()[:64], 0)
        if stamp:
            return stamp[1]
        try:
            value = float(value[:32])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -1e20 < value < 1e20:
        return None
    for scale in (1, 10**3, 10**6, 10**9):
        if 1e9 <= value / scale < 4e9:
            return datetime.fromtimestamp(value / scale, UTC)
    return None


# --- names of machines -----------------------------------------------------------------------------------------------

_IPV4 = r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}"
_STEMS = (
    "node|nodes|worker|host|server|master|slave|compute|machine|trainer|head|launcher|dgx|hgx|cn|nid|rack|instance|vm|pod|"
    "gpunode|gn|gpu"
)
_HOST_SHAPE = re.compile(
    rf"(?:{_IPV4}"
    rf"|(?:{_STEMS})\d{{1,5}}(?:[.-][a-z0-9.-]*)?"  # node1, worker3.cluster.local
    r"|[a-z]{1,12}\d{2,6}(?:[.-][a-z0-9.-]*)?"  # gpu016, n03
    r"|[a-z]{1,4}\d{1,4}[a-z]{1,4}\d{1,4}"  # r3n02
    r"|[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*[.-][a-z]{0,8}\d{1,5}(?:[.-][a-z0-9]+)*)$",  # llm-worker-0, ip-10-0-0-1, gpu-c07
    re.I,
)
# Names with a digit that are no machine: devices, programs, models, metrics and steps.
_NO_HOST = re.compile(
    r"(?:python|pip|gcc|g\+\+|clang|nvidia-|mlx|eth|ib\d|cuda:?\d|gpu\d$|npu|hl\d|epoch|step|iter|batch|layer|stage|fold|phase|task|test|trial|"
    r"attempt|loss|acc|top|map|bleu|rouge|recall|hits|gpt|bert|resnet|llama|qwen|vit|t5|yolo|sha|md|utf|int|float|bf|fp|libcu|cu\d|torch|"
    r"error|exit|version|lib|slurm-|[EW][A-Z]\d{4}$|v\d|h\d+$|x\d+|p\d+$|f\d+$|r\d+$|l\d+$|d\d+$|md5|sm[-_]?\d)",
    re.I,
)
_FILE_END = re.compile(r"\.(?:so|out|log|err|py|sh|cpp|cc|cu|c|h|hpp|txt|json|ya?ml|o|bin|pt|ts)(?:\.\d+)*$", re.I)
_EXCEPTION_END = re.compile(r"(?:Error|Exception|Warning|Interrupt|Exit)$")


def _is_host(name: str) -> bool:
    if _NO_HOST.match(name) or not _HOST_SHAPE.match(name):
        return False
    return not _FILE_END.search(name) and not _EXCEPTION_END.search(name)


# --- pieces in brackets ----------------------------------------------------------------------------------------------

_SOURCE = r"[\w./+-]{1,200}\.(?:py|cc|cpp|cu|cuh|c|h|hpp|go|rs|pyx):\d{1,6}"
_ROLE_SKIP = r"(?!epoch|step|iter|batch|layer|stage|fold|phase|global|cli|train\d)"
_B_RANK = re.compile(r"\[(?:rank|RANK)[ :=_-]{0,2}(\d{1,6})\]:? ?")
_B_RANK_SAID = re.compile(r"\[(?:PG (?:0 |ID 0 PG GUID 0\S{0,40} )?)?Rank[ :=](\d{1,6})\]")
_B_ROLE = re.compile(rf"\[{_ROLE_SKIP}([a-z][a-z_]{{1,30}})-?(\d{{1,5}})(?:([|:])(\d{{1,5}}))?\]:(?: (?! ))?")
_B_MPI = re.compile(r"\[(?:\d{1,6},)?(\d{1,6})\]<(?:stdout|stderr|stddiag)>:(?: (?! ))?")
_B_LOCAL = re.compile(r"\[(\d{1,4})\]:(?: (?! ))?")
_B_LOCAL_NCCL = re.compile(r"\[(\d{1,4})\] (?=(?:[\w./-]{1,120}:\d{1,6} )?NCCL (?:WARN|INFO|TRACE|ERROR))")
_B_LEVEL = re.compile(rf"\[\s{{0,8}}({_LEVEL}|[IWEFD])\s{{0,8}}\](?:\s?-\s|:? ?)")
_B_LEVEL_ANY_CASE = re.compile(rf"\[\s{{0,8}}({_LEVEL})\s{{0,8}}\](?:\s?-\s|:? ?)", re.I)
_B_LEVEL_BAR = re.compile(rf"\[({_LEVEL})\|[^\]\n]{{1,200}}\]:?(?: (?! ))?")
_B_GLOG = re.compile(rf"\[([IWEF])(?:(\d{{1,2}})(\d\d)(?: {_CLOCK})?)?(?: {_SOURCE}|(?<=[\d.]))\] ?")
_B_ORT = re.compile(r"\[([VIWEF]):onnxruntime:[^\]\n]{0,160}\] ?")
_B_LETTER_TIME = re.compile(r"\[(?:NeMo )?([IWEDCF]) (?=\d{4}-)")
_B_NEMO = re.compile(r"\[NeMo ([IWED])\] ?")
_B_DMESG = re.compile(
    r"\[\s{0,8}\d{1,8}\.(?:\d{3,6}\](?:\[ {0,6}[TC]\d{1,7}\])?|\d{1,2}\](?= (?:NVRM|nvidia|mlx5|amdgpu|pcieport))) ?"
)
_B_EPOCH = re.compile(r"\[(1[3-9]\d{8}\.\d{3,9})\] ?")
_B_PROCESS = re.compile(r"\[([A-Za-z][\w.-]{0,62}):\d{2,8} {0,4}(?::\d{1,8})?\] {0,12}")
_B_SOURCE = re.compile(rf"\[{_SOURCE}(?::[\w.<>]{{1,80}})?\] ?")
_B_NUMBER = re.compile(rf"\[\d{{1,8}}\] (?=\[(?:rank\d|(?:{_LEVEL})\]))")
_B_PID = re.compile(r"\[(?:PID:|pid[ =:]|tid[ =:])\s?\d{1,8}\] ?")
_B_LOGGER = re.compile(rf"\[[A-Za-z_][\w.]{{0,80}}\](?= ?\[\s{{0,8}}(?:{_LEVEL})\s{{0,8}}\])")
_B_DOTTED = re.compile(r"\[[a-z_]\w{0,40}(?:\.\w{1,60}){1,10}(?::\d{1,6})?\] ?")
_B_NAME_TIME = re.compile(r"\[([A-Za-z][\w.-]{0,40})\] (?=\d{4}-\d\d-\d\d)")
_B_HOST = re.compile(r"\[([A-Za-z][\w.-]{2,62})\]:? (?=\S| {2,8}\S)")
_B_POD = re.compile(r"\[pod/([\w.-]{1,120})/[\w.-]{1,80}\] ?")
_B_CLOSE = re.compile(r"(?::?[ ,]([^\]\[\n]{1,80}))?\]:?(?: (?! *\Z))?")
_FILE_COLON = re.compile(r"\([\w./-]{1,80}[ :]\d{1,6}\):? ")
_WORDS_LEVEL = re.compile(rf"({_LEVEL})\b|([IWEFDC]) [\w./]{{1,120}}[: ]\d")
_PARALLEL = re.compile(r"(?:[TPDE]P\d{1,4} ?){1,4}$")


def _bracket(text: str, at: int, found: _Found) -> int:
    second = text[at + 1 : at + 2]
    if second.isdigit() or second == " ":
        return _bracket_number(text, at, found)
    if second in "rR":
        if m := _B_RANK.match(text, at):
            found.from_rank(m[1])
            return m.end()
        if found.rank is None and (m := _B_RANK_SAID.match(text, at)):
            # The process group's own word: it belongs to the message, and says who speaks.
            found.rank = int(m[1])
            return at
    if second == "P" and found.rank is None and (m := _B_RANK_SAID.match(text, at)):
        found.rank = int(m[1])
        return at
    if (m := _B_LETTER_TIME.match(text, at)) and (stamp := _stamp(text, m.end())):
        close = text.find("]", stamp[0], stamp[0] + 160)
        if close >= 0:
            found.level = level_name(m[1])
            found.at_time(stamp[1])
            return close + (2 if text[close + 1 : close + 2] == " " else 1)
    if m := _B_LEVEL.match(text, at) or (_B_LEVEL_ANY_CASE.match(text, at) if found.time else None):
        found.level = level_name(m[1])
        return m.end()
    if m := _B_LEVEL_BAR.match(text, at):
        found.level = level_name(m[1])
        stamp = _stamp(text, m.end())
        if stamp and text.startswith(" >> ", stamp[0]):
            found.at_time(stamp[1])
            return stamp[0] + 4
        return m.end()
    if m := _B_GLOG.match(text, at):
        found.level = level_name(m[1])
        if m[4]:
            found.at_time(_moment(UNKNOWN_YEAR, m[2], m[3], m.groups()[3:7]))
        return m.end()
    for pattern in (_B_ORT, _B_NEMO):
        if m := pattern.match(text, at):
            found.level = level_name(m[1])
            return m.end()
    if m := _B_ROLE.match(text, at):
        first, second_number = int(m[2]), int(m[4]) if m[4] else None
        if m[1] in ("node", "host") and second_number is not None:
            found.host, found.local_rank = f"{m[1]}-{first}", second_number
        elif second_number is None:
            found.local_rank = first
        else:
            # `role<rank>|<local rank>`, `role-<local rank>:<rank>`; a local rank is never above the global one.
            found.rank, found.local_rank = max(first, second_number), min(first, second_number)
        found.spoken_by(m[0].strip("[]: "))
        return m.end()
    if m := _B_POD.match(text, at):
        found.from_host(m[1])
        return m.end()
    if found.logged() and (m := _B_SOURCE.match(text, at) or _B_PID.match(text, at) or _B_LOGGER.match(text, at)):
        return m.end()
    if found.level and found.time and (m := _B_DOTTED.match(text, at)):
        return m.end()
    if m := _B_NAME_TIME.match(text, at):
        if _is_host(m[1]):
            found.from_host(m[1])
        return m.end()
    if (m := _B_PROCESS.match(text, at)) and not m[1].endswith((".py", ".cc", ".cpp", ".cu", ".c", ".h")):
        if _is_host(m[1]):
            found.host = m[1]
            found.spoken_by(m[0].strip(" []"))
            return m.end()
        return at
    if m := _B_HOST.match(text, at):
        if _is_host(m[1]):
            found.from_host(m[1])
            return m.end()
        if _PARALLEL.match(m[1]):
            found.spoken_by(m[1])
            return m.end()
    stamp = _stamp(text, at + 1) if second in "JFMASONDTW" and second else None
    return _close_stamp(text, at, stamp, found)


def _bracket_number(text: str, at: int, found: _Found) -> int:
    if stamp := _stamp(text, at + 1):
        return _close_stamp(text, at, stamp, found)
    if m := _B_MPI.match(text, at):
        found.from_rank(m[1])
        return m.end()
    if m := _B_LOCAL.match(text, at) or _B_LOCAL_NCCL.match(text, at):
        found.local_rank = int(m[1])
        found.spoken_by(f"local{found.local_rank}")
        return m.end()
    if m := _B_EPOCH.match(text, at):
        found.at_time(read_time(m[1]))
        return m.end()
    if m := _B_LEVEL.match(text, at):
        found.level = level_name(m[1])
        return m.end()
    if m := _B_NUMBER.match(text, at) or _B_DMESG.match(text, at):
        return m.end()
    return at


def _close_stamp(text: str, at: int, stamp: tuple[int, datetime | None] | None, found: _Found) -> int:
    """Peel `[time]`, `[time words]` and the logger's words behind it."""
    if stamp is None or not (m := _B_CLOSE.match(text, stamp[0])):
        return at
    found.at_time(stamp[1])
    if words := m[1]:
        if level := _WORDS_LEVEL.search(words):
            found.level = level_name(level[1] or level[2])
        elif _PARALLEL.match(words):
            found.spoken_by(words.strip())
    end = m.end()
    if place := _FILE_COLON.match(text, end):
        end = place.end()
    return end


# --- pieces that begin with a digit ----------------------------------------------------------------------------------

_N_SRUN = re.compile(r"(\d{1,5}): (?!\s*\d{1,3}%)")
_N_IP = re.compile(rf"({_IPV4}): ")
_AFTER_PYTHON = re.compile(
    rf" - (?:[\w.:/-]{{1,80}} - )?({_LEVEL}) ?- (?:(?:__\w{{1,30}}__|[a-z_]\w{{0,40}}(?:\.\w{{1,40}}){{0,8}}) - )?"
)
_AFTER_BARS = re.compile(rf" ?\| ?({_LEVEL})\s{{0,8}}\| ?(?:[\w.<>-]{{1,80}}(?::[\w.<>]{{1,80}}){{0,2}} ?[|-] )?")
_AFTER_TABS = re.compile(rf"\t(?:([\w.-]{{1,63}}):(\d{{1,5}})\t)?(?:[^\t\n]{{1,60}}\t)?({_LEVEL})\t")
_AFTER_RAY = re.compile(rf"\s({_LEVEL}) [\w./-]{{1,80}}:\d{{1,6}} -- ")
_AFTER_BLANKS = re.compile(rf"\s{{1,4}}(?=(?:{_LEVEL})\b)")
_AFTER_STREAM = re.compile(r" (?:stdout|stderr) [FP](?: |$)")
_AFTER_PLAIN = re.compile(r"(?: - | \| |: |\s)(?=\S)|$")


def _number(text: str, at: int, found: _Found) -> int:
    if stamp := _stamp(text, at):
        end, time = stamp
        if m := _AFTER_PYTHON.match(text, end) or _AFTER_BARS.match(text, end) or _AFTER_RAY.match(text, end):
            found.level = level_name(m[1])
        elif m := _AFTER_TABS.match(text, end):
            if m[1] and _is_host(m[1]):
                found.host, found.local_rank = m[1], int(m[2])
                found.spoken_by(f"{m[1]}:{m[2]}")
            found.level = level_name(m[3])
        else:
            m = _AFTER_STREAM.match(text, end) or _AFTER_BLANKS.match(text, end) or _AFTER_PLAIN.match(text, end)
        if m:
            found.at_time(time)
            return m.end()
        if text[end : end + 2] == "  ":  # the second one is the message's indentation
            found.at_time(time)
            return end + 1
        return at
    if m := _N_IP.match(text, at):
        found.from_host(m[1])
        return m.end()
    if m := _EPOCH.match(text, at):
        found.at_time(read_time(m[0]))
        return m.end() + 1
    return at


def _srun(text: str, at: int, found: _Found) -> int:
    """Peel the label of `srun --label`: a task's number, colon, space."""
    if not (m := _N_SRUN.match(text, at)):
        return at
    found.from_rank(m[1])
    return m.end()


# --- pieces that begin with a letter ---------------------------------------------------------------------------------

_U_LEVEL_LOGGER = re.compile(rf"({_LEVEL}):([A-Za-z_][\w.-]{{0,80}}):(?! ?/)")
_U_LEVEL_VLLM = re.compile(rf"({_LEVEL})\s{{1,4}}(\d\d)-(\d\d) {_CLOCK}\s{{1,2}}\[?[\w./-]{{1,120}}:\d{{1,6}}\](?: |$)")
_U_LEVEL_SOURCE = re.compile(rf"({_LEVEL})\s{{1,6}}(?:(?=\[{_SOURCE})|{_SOURCE}\] ?)")
_U_LAUNCH = re.compile(rf"LAUNCH ({_LEVEL}) (?=\d{{4}}-)")
_U_LEVEL_TIME = re.compile(rf"({_LEVEL})\s{{1,6}}(?=\[?\d\d)")
_U_LEVEL_LOGGED = re.compile(rf"({_LEVEL})(?: (?=  File \")|(?::\s{{1,4}}| - | ?\| |\s{{1,8}})(?=\S))")
_U_LEVEL_SAID = re.compile(rf"({_LEVEL})(?=[:\s])")
_U_GLOG = re.compile(
    rf"([IWEF])(?:(\d\d)(\d\d)(?: {_CLOCK})?| (\d\d)-(\d\d) {_CLOCK})\s{{1,8}}"
    r"(?:\d{1,20}\s)?[\w./<>+-]{1,200}:\d{1,6}\] ?"
)
_U_TF = re.compile(rf"([IWEF]) {_SOURCE}\] ?")
_NCCL = re.compile(r"([A-Za-z][\w.-]{0,62}):(\d{1,8}):(\d{1,8}) \[(-?\d{1,4})\] ?")
_RANK_COLON = re.compile(r"[Rr](?:ank|ANK)[ _:=-]?(\d{1,6}): ?")
_PYTEST = re.compile(r"E {3,12}(?=[^\s#])")
_HOST_COLON = re.compile(r"([A-Za-z][\w.-]{1,62}): (?=\d{1,5}: |\d\d[\d/:-]\d|(?!\s*[\d+\-.]))")
_HOST_SPACE = re.compile(r"([a-z][\w.-]{1,62}) (?=\[|\{|\(|Traceback|  File|(?:" + _LEVEL + r")\b)")
_COMPOSE = re.compile(r"(?!epoch|step|iter|batch|fold)([A-Za-z][\w.-]{0,62}[-_]\d{1,4})\s{0,40}\| ?", re.I)
_KERNEL = re.compile(
    r"kern(?:el)?: (?:(?:warn|warning|err|info|notice|crit|emerg|alert|debug): )?(?:\[[^\]\n]{3,40}\]:? ?)?"
)
_HOST_KERNEL = re.compile(r"([a-z][\w.-]{1,62}) (?=kernel: )")
_SYSLOG_HOST = re.compile(r" ([A-Za-z][\w.-]{0,62}) (?=[\w./-]{1,60}(?:\[\d{1,8}\])?: )")
_TORCHX = re.compile(r"(?!epoch|step|iter|batch|fold|train/|val/|eval/|loss|lr/)([a-z][\w-]{1,40}/\d{1,5}) (?=\S)")
_POD = re.compile(r"pod/([\w.-]{1,120})(?:/[\w.-]{1,80})?:? ")
_STERN = re.compile(
    r"([a-z][a-z0-9.-]{0,80}-[a-z0-9]{1,10}) (?:[a-z]{1,20}-container|pytorch|tensorflow|trainer|worker|master|"
    r"launcher|main|node|app|train|training|vllm|server|model|mpi|ray-worker|ray-head|job|jax|container) "
)
_LOGGER_LEVEL = re.compile(rf"[a-z][\w.]{{0,80}}(?: ({_LEVEL}): |: \[({_LEVEL})\] )")
_OLMO = re.compile(rf"([a-z][\w.-]{{0,62}}):(\d{{1,4}}) [\w.]{{1,80}}:\d{{1,6}} ({_LEVEL}) ")
_GH_RUN = re.compile(r"[^\t\n]{1,120}\t[^\t\n]{1,120}\t(?=\d{4}-\d\d-\d\dT)")


def _level_before_more(text: str, at: int) -> re.Match[str] | None:
    """Match a level that stands before the rest of a logger's prefix: a source in brackets, or the time."""
    if m := _U_LEVEL_SOURCE.match(text, at) or _U_LAUNCH.match(text, at):
        return m
    m = _U_LEVEL_TIME.match(text, at)
    return m if m and _stamp(text, m.end() + (text[m.end()] == "[")) else None


def _upper(text: str, at: int, found: _Found) -> int:
    word = text[at : at + 3]
    if word[:2].isupper():
        if m := _U_LEVEL_LOGGER.match(text, at):
            if not _EXCEPTION_END.search(m[2]):
                found.level = level_name(m[1])
                return m.end()
        elif m := _U_LEVEL_VLLM.match(text, at):
            found.level = level_name(m[1])
            found.at_time(_moment(UNKNOWN_YEAR, m[2], m[3], m.groups()[3:7]))
            return m.end()
        elif m := _level_before_more(text, at) or (
            _U_LEVEL_LOGGED.match(text, at) if found.time or (found.speakers and text[at - 2] == ")") else None
        ):
            found.level = level_name(m[1])
            return m.end()
        elif found.level is None and (m := _U_LEVEL_SAID.match(text, at)):
            # `ERROR: Could not find a version` is how the message itself begins.
            found.level = level_name(m[1])
            return at
    if word[:1] in "IWEF" and (m := _U_GLOG.match(text, at)):
        found.level = level_name(m[1])
        if m[4]:
            found.at_time(_moment(UNKNOWN_YEAR, m[2], m[3], m.groups()[3:7]))
        elif m[10]:
            found.at_time(_moment(UNKNOWN_YEAR, m[8], m[9], m.groups()[9:13]))
        return m.end()
    if word[1:2] == " ":
        if word[0] in "IWEF" and (m := _U_TF.match(text, at)):
            found.level = level_name(m[1])
            return m.end()
        if word[0] == "E" and (m := _PYTEST.match(text, at)):
            return m.end()
    if word in _MONTHS or word in _WEEKDAYS:
        stamp = _stamp(text, at)
        if stamp is None or text[stamp[0] : stamp[0] + 1] not in (" ", "\t"):
            return at
        found.at_time(stamp[1])
        if m := _SYSLOG_HOST.match(text, stamp[0]):
            found.from_host(m[1])
            return m.end()
        return stamp[0] + 1
    if word[:1] == "R" and (m := _RANK_COLON.match(text, at)):
        found.from_rank(m[1])
        return m.end()
    return _named(text, at, found)


def _lower(text: str, at: int, found: _Found) -> int:
    if text.startswith("rank", at) and (m := _RANK_COLON.match(text, at)):
        found.from_rank(m[1])
        return m.end()
    if text.startswith("kern", at) and (m := _KERNEL.match(text, at)):
        if "[" in m[0] and (stamp := _stamp(text, text.index("[", at) + 1)):
            found.at_time(stamp[1])
        return m.end()
    if found.time and (m := _LOGGER_LEVEL.match(text, at)):
        found.level = level_name(m[1] or m[2])
        return m.end()
    return _named(text, at, found)


_HAS_DIGIT = re.compile(r"[A-Za-z][A-Za-z_.@-]{0,60}[/:-]{0,2}\d")


def _named(text: str, at: int, found: _Found) -> int:
    """Peel a machine's, pod's or container's name; all of them have a digit in the first word."""
    if "\t" in text[at : at + 240] and (m := _GH_RUN.match(text, at)):
        return m.end()
    if not _HAS_DIGIT.match(text, at):
        if text.startswith("pod/", at) and (m := _POD.match(text, at)):
            found.from_host(m[1])
            return m.end()
        return at
    if m := _NCCL.match(text, at):
        found.host, found.local_rank = m[1], max(int(m[4]), 0)
        found.spoken_by(f"{m[1]}:{m[2]}")
        return m.end()
    if (m := _OLMO.match(text, at)) and _is_host(m[1]):
        found.host, found.local_rank, found.level = m[1], int(m[2]), level_name(m[3])
        found.spoken_by(f"{m[1]}:{m[2]}")
        return m.end()
    if m := _HOST_COLON.match(text, at):
        if _is_host(m[1]):
            found.from_host(m[1])
            return m.end()
        return at
    if "|" in text[at : at + 100] and (m := _COMPOSE.match(text, at)):
        found.spoken_by(m[1])
        return m.end()
    if m := _POD.match(text, at) or _STERN.match(text, at):
        found.from_host(m[1])
        return m.end()
    if m := _TORCHX.match(text, at):
        found.spoken_by(m[1])
        return m.end()
    if (m := _HOST_SPACE.match(text, at)) and _is_host(m[1]) and (found.time or found.speakers or text[m.end()] == "["):
        found.from_host(m[1])
        return m.end()
    if (m := _HOST_KERNEL.match(text, at)) and _is_host(m[1]):
        found.from_host(m[1])
        return m.end()
    return at


# --- the rest --------------------------------------------------------------------------------------------------------

_RAY = re.compile(
    r"\(((?:[A-Za-z_][^()\n]{0,160} )?pid=\d{1,9}(?:, ip=[\w.:-]{1,60})?"
    r"|(?:raylet|gcs_server|autoscaler)[^()\n]{0,60})\)(?: |$)"
)
_RAY_RANK = re.compile(r"\brank=(\d{1,6})\b")
_RAY_IP = re.compile(r"\bip=([\w.:-]{1,60})")
_SOURCE_LEVEL = re.compile(rf"\([\w./-]{{1,80}}:\d{{1,6}}\) ({_LEVEL}): ")
_ICEFALL = re.compile(r"\((\d{1,5})/\d{1,5}\) ")
_ASCEND = re.compile(r"\(PID:\d{1,9}, Device:-?\d{1,4}, RankID:(-?\d{1,6})\) ")


def _paren(text: str, at: int, found: _Found) -> int:
    if m := _RAY.match(text, at):
        found.spoken_by(m[1])
        if ip := _RAY_IP.search(m[1]):
            found.host = ip[1]
        if rank := _RAY_RANK.search(m[1]):
            found.rank = int(rank[1])
        return m.end()
    if found.logged():
        if m := _SOURCE_LEVEL.match(text, at):
            found.level = level_name(m[1])
            return m.end()
        if m := _ICEFALL.match(text, at):
            found.from_rank(m[1])
            return m.end()
        if m := _ASCEND.match(text, at):
            if not m[1].startswith("-"):
                found.from_rank(m[1])
            return m.end()
    return at


def _kanji_bracket(text: str, at: int, found: _Found) -> int:
    stamp = _stamp(text, at + 1)
    if stamp is None or text[stamp[0] : stamp[0] + 1] != "】":
        return at
    found.at_time(stamp[1])
    return stamp[0] + (2 if text[stamp[0] + 1 : stamp[0] + 2] == " " else 1)


_ACTIONS = re.compile(r"##\[(error|warning|debug|group|endgroup|command|section)\]")


def _hash(text: str, at: int, found: _Found) -> int:
    if not (m := _ACTIONS.match(text, at)):
        return at
    found.level = level_name(m[1]) or found.level
    return m.end()


_RULES: dict[str, Callable[[str, int, _Found], int]] = {
    "[": _bracket,
    "(": _paren,
    "【": _kanji_bracket,
    "#": _hash,
    **dict.fromkeys("0123456789", _number),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _upper),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _lower),
}
_LEAD = re.compile(r"\s{1,3}(?=[\[\d(])")


def split_prefix(text: str, *, labels: bool = True) -> Prefix:
    """Return what stands left of the message of one line, and the message.

    The message keeps its indentation relative to the prefix. `labels` tells whether a leading `3: ` may be a task's
    number (`srun --label`); whoever sees the whole log knows better than one line does.
    """
    at = 0
    head = text[:1]
    if head in (" ", "\t"):
        lead = _LEAD.match(text)
        if not lead:
            return Prefix(text)
        at = lead.end()
        head = text[at]
    rule = _RULES.get(head)
    if rule is None:
        return Prefix(text)
    found = _Found()
    start = at
    for _ in range(_MAX_PIECES):
        end = rule(text, at, found)
        if end == at and labels and head.isdigit() and (at == start or found.host) and found.time is None:
            end = _srun(text, at, found)
        if end == at:
            break
        at = end
        head = text[at : at + 1]
        rule = _RULES.get(head)
        if rule is None:
            break
    if at == start:
        at = 0  # nothing peeled: the blanks in front are the message's own
    message = text[at:]
    return Prefix(message, found.rank, found.local_rank, found.host, found.time, found.level, "/".join(found.speakers))
