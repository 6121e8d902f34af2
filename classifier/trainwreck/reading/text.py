"""Bytes of a log → lines: decoded, without control characters, bars thinned, envelopes and prefixes set aside."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from trainwreck.diagnosis import Line
from trainwreck.reading.prefixes import UNKNOWN_DAY, UNKNOWN_YEAR, Prefix, level_name, read_time, split_prefix
from trainwreck.reading.sources import hints

__all__ = ["clean", "decode", "read_lines"]

_HEAD_CHARACTERS, _TAIL_CHARACTERS = 8_000, 2_000
_LONGEST = _HEAD_CHARACTERS + _TAIL_CHARACTERS
_LONGEST_RECORD = 2**20
_BLANK_RUN = 3
_MOST_PIECES = 2_000
"""How many lines one physical line may hold."""
_BARS_KEPT = 400
"""Of the states of a bar that carry changing metrics, at most about this many a physical line are kept, evenly."""

# --- characters ------------------------------------------------------------------------------------------------------

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(data: bytes) -> str:
    """Return the text in `data`, whatever it is, without NULs. Never raises.

    UTF-8, UTF-16 and UTF-32 (with a mark; UTF-16 also by its pattern of NULs); where little of it is valid UTF-8,
    Windows-1252. What cannot be decoded becomes U+FFFD. Every line end of the data is one `\\n` of the text.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name, "replace").lstrip("\ufeff").replace("\x00", "")
    sample = data[:4_096]
    if sample.count(0) > 0.25 * len(sample):
        even, odd = sample[::2].count(0), sample[1::2].count(0)
        if odd > 0.4 * len(sample) and even < 0.05 * len(sample):
            return data.decode("utf-16-le", "replace").replace("\x00", "")
        if even > 0.4 * len(sample) and odd < 0.05 * len(sample):
            return data.decode("utf-16-be", "replace").replace("\x00", "")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        strange = sum(1 for _ in _NOT_ASCII.finditer(text[:100_000]))
        if text.count("\ufffd", 0, 100_000) > 0.5 * strange:
            text = data.decode("cp1252", "replace")
    return text.replace("\x00", "") if "\x00" in text else text


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# CSI, OSC and other strings, two-character escapes. None crosses a line end: cleaning line by line gives the same.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]P_^X][^\x07\x1b\n\r\x08]*(?:\x07|\x1b\\)"
    r"|\x1b[()*+#%][0-9A-Za-z]|\x1b[@-Z\\-_=>78cDEHMNOZ]"
)
_REDRAW = re.compile(r"2K|\d*[GAF]|[\d;]*H")
_BACKSPACES = re.compile(r"\x08{4,}")
# C0 but tab and line ends, DEL, C1, zero-width characters, line separators, bidirectional controls, byte order marks.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]+"
)
_CONTROL_OR_CR = re.compile(_CONTROL.pattern.replace(r"\x0e", r"\x0d"))


def clean(text: str) -> str:
    """Return `text` without escape sequences and control characters, `\\t` and `\\n` excepted. Linear in its length.

    Backspaces and `\\r` are dropped, not applied; a no-break space becomes a space.
    """
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub("", text)
    text = _CONTROL_OR_CR.sub("", text)
    return text.replace("\xa0", " ")


def _redrawn(match: re.Match[str]) -> str:
    """Cursor movements to the line's beginning do what `\\r` does: another state of the same line follows."""
    escape = match[0]
    return "\r" if _REDRAW.fullmatch(escape, 2 if escape[0] == "\x1b" else 1) else ""


def _plain(text: str) -> str:
    """Return `text` as `clean` does, with `\\r` kept (and put) where a line is drawn anew."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub(_redrawn, text)
    if "\x08" in text:
        text = _BACKSPACES.sub("\r", text)
    return _CONTROL.sub("", text).replace("\xa0", " ")


# --- one physical line drawn several times ---------------------------------------------------------------------------

_NO_LETTERS = re.compile(r"[\W\d_]+")
_VALUES = re.compile(
    r"[A-Za-z_][\w/.@-]{0,40}\s?[=:]\s?([-+]?(?:\d[\d.]*+(?:[eE][-+]?\d+)?|nan|inf)\b)(?![\d.]*[%/:<])", re.I
)
_BAR_END = re.compile(r"(?:\?|\d)\s?(?:[A-Za-z]{1,12}/s|s/[A-Za-z]{1,12})(?:, [^\[\]\r\n]{0,300})?\]")
_OTHER_WRITER = re.compile(
    r"\s{0,4}(?:Traceback \(|\[(?:rank\d|20\d\d|[A-Z]{4,8}[|\]])|[A-Za-z_][\w.]{0,80}(?:Error|Exception):)"
)


def _states(row: str) -> list[str]:
    """Return the `\\r` segments of `row` worth keeping: first, last, those with new words or new metrics."""
    parts = [part for part in row.split("\r") if part and not part.isspace()]
    if len(parts) <= 3:
        return parts
    last = len(parts) - 1
    seen: set[str] = set()
    keep, metrics = [], []
    values: list[str] = []
    for number, part in enumerate(parts):
        head = part[:2_000]
        words = _NO_LETTERS.sub("", head)
        if words not in seen or number == last:
            seen.add(words)
            keep.append(number)
            values = _VALUES.findall(head)
        elif (now := _VALUES.findall(head)) and now != values:
            values = now
            metrics.append(number)
    step = -(-len(metrics) // _BARS_KEPT) or 1
    words_step = -(-len(keep) // _MOST_PIECES) or 1
    return [parts[number] for number in sorted({0, last, *keep[::words_step], *metrics[::step]})]


# Another process wrote before this one had ended its line.
_GLUED = re.compile(
    r"(?<=[^\s:\]])\[rank\d{1,5}\]:(?= ?(?:Traceback| {2}File|\[[EWF]|[\w.]{1,80}Error:))"
    r"|(?<=[\w.!)])Traceback \(most recent call last\)"
)


def _unglued(part: str) -> list[str]:
    """Split what another writer put behind a line, or behind a progress bar, that had no line end yet."""
    if ("[rank" in part or "Traceback (" in part) and (match := _GLUED.search(part)):
        return [*_unglued(part[: match.start()]), part[match.start() :]]
    if "/s" not in part and "s/" not in part:
        return [part]
    end = 0
    for match in _BAR_END.finditer(part[:_LONGEST]):
        end = match.end()
    if not end or not part[end:].strip():
        return [part]
    if not part[end].isspace() or _OTHER_WRITER.match(part, end):
        return [part[:end], part[end:]]
    return [part]


# --- what was put around the whole log -------------------------------------------------------------------------------

_SAMPLE_ROWS = 400
_QUOTE_MARK = re.compile(r"(?:> ?){1,4}")
_NUMBERED = re.compile(r"\s{0,6}(\d{1,6})(?:\s?[:|] ?|\s|$)")
_FIRST_WORD = re.compile(r"\W*([A-Za-z_]+)")


def _without_quote_marks(rows: list[str]) -> list[str]:
    """Strip `> ` from a log that was quoted in a mail or a comment."""
    sample = [row for row in rows[:_SAMPLE_ROWS] if row]
    marked = sum(row[0] == ">" for row in sample)
    if marked < 3 or marked < 0.6 * len(sample):
        return rows
    return [row[m.end() :] if row[:1] == ">" and (m := _QUOTE_MARK.match(row)) else row for row in rows]


def _without_numbers(rows: list[str]) -> list[str]:
    """Strip a column of line numbers, as an editor or `cat -n` puts it; a table of epochs keeps its own."""
    sample = [row for row in rows[:_SAMPLE_ROWS] if row and not row.isspace()]
    found = [_NUMBERED.match(row) for row in sample[:8]]
    if len(sample) < 5 or not all(found):
        return rows
    matches = [match for row in sample if (match := _NUMBERED.match(row))]
    numbers = [int(match[1]) for match in matches]
    steps = sum(after - before == 1 for before, after in pairwise(numbers))
    if len(matches) < 0.95 * len(sample) or steps < 0.9 * (len(numbers) - 1):
        return rows
    words = Counter(word[1] for match in matches if (word := _FIRST_WORD.match(match.string, match.end())))
    if words.total() < 0.4 * len(matches) or max(words.values()) > 0.6 * words.total():
        return rows
    return [row[match.end() :] if (match := _NUMBERED.match(row)) else row for row in rows]


_FRESH = re.compile(
    r"\s*$|\s*File \"|Traceback|\s{4}|[\[({<]|\d{4}-\d\d-\d\d|[IWEF]\d{4} |[\w.]{1,80}(?:Error|Exception)\b|"
    r"(?:INFO|WARNING|ERROR)\b"
)


def _without_wraps(rows: list[str]) -> list[str | None]:
    """Join lines that a terminal broke at its width; the rest of such a line becomes None.

    Lines of one length are no evidence by themselves (a table has them): some must break inside a word, few may be
    followed by what begins a line, and both edges of the breaks must differ from one another.
    """
    width = max(map(len, rows), default=0)
    if len(rows) < 6 or not 60 <= width <= 400:
        return list(rows)
    breaks = [(row, after) for row, after in pairwise(rows) if len(row) == width]
    inside = sum(row[-1].isalnum() and after[:1].isalnum() for row, after in breaks)
    fresh = sum(bool(_FRESH.match(after)) for _, after in breaks)
    ends = {_NO_LETTERS.sub("", row[-16:]) for row, _ in breaks}
    heads = {_NO_LETTERS.sub("", after[:16]) for _, after in breaks}
    if (
        len(breaks) < 3
        or inside < max(2, 0.3 * len(breaks))
        or fresh > 0.25 * len(breaks)
        or min(len(ends), len(heads)) < 0.6 * len(breaks)
    ):
        return list(rows)
    joined: list[str | None] = [None] * len(rows)
    first, parts = 0, [rows[0]]
    for number in range(1, len(rows)):
        if len(rows[number - 1]) != width or _FRESH.match(rows[number]):
            joined[first], first, parts = "".join(parts), number, []
        parts.append(rows[number])
    joined[first] = "".join(parts)
    return joined


_LABEL = re.compile(r"\s?(?:[a-z][\w.-]{1,62}: )?(\d{1,5}): ", re.I)
_LABELLED = re.compile(r"\s{2,}\S|Traceback|\[rank|[\w.]{1,80}(?:Error|Exception):")


def _has_labels(rows: Sequence[str]) -> bool:
    """Tell whether a leading `3: ` is a task's number: it comes again, or a traceback follows. A step does neither."""
    counts: Counter[str] = Counter()
    for row in rows:
        if ": " in row[:80] and (match := _LABEL.match(row)):
            if _LABELLED.match(row, match.end()):
                return True
            counts[match[1]] += 1
    return bool(counts) and max(counts.values()) > 1


# --- envelopes -------------------------------------------------------------------------------------------------------

_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\S{8,40} (stdout|stderr) )([FP]) ?")
_MESSAGE_KEYS = ("message", "msg", "log", "text", "textPayload", "event", "jsonPayload", "json_payload")
_TROUBLE_KEYS = (
    "exception",
    "exc_info",
    "exc_text",
    "exc",
    "traceback",
    "stack_trace",
    "stacktrace",
    "stack",
    "error",
    "err",
)
_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "asctime", "datetime")
_LEVEL_KEYS = ("level", "severity", "levelname", "level_name", "lvl", "loglevel")
_HOST_KEYS = ("host", "hostname", "node", "pod", "pod_name")
_METRIC_KEY = re.compile(r"loss|grad|norm|lr|learning_rate|accuracy|acc|ppl|perplexity|nan|overflow", re.I)


# JSON may escape half a character; nothing that encodes text takes it.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Record:
    """A structured log record: its message and what it says about itself."""

    message: str
    rank: int | None
    host: str | None
    time: datetime | None
    level: str | None
    metrics: bool
    """Whether it also holds numbers of the training: then the record itself is worth keeping."""


def _record(text: str) -> _Record | None:
    """Return the record in `text`, or None when it is no JSON object or holds no message."""
    if text[-1:] != "}" or len(text) > _LONGEST_RECORD:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or (message := _message(fields)) is None:
        return None
    message = _SURROGATE.sub("\ufffd", message)
    for key in _TROUBLE_KEYS:
        value = fields.get(key)
        if isinstance(value, dict):
            value = value.get("stack_trace") or value.get("message")
        if isinstance(value, str) and value.strip() and (value := _SURROGATE.sub("\ufffd", value)) not in message:
            message = f"{message}\n{value}"
    rank = fields.get("rank", fields.get("global_rank"))
    host = next((value for key in _HOST_KEYS if isinstance(value := fields.get(key), str) and value), None)
    level = next((value for key in _LEVEL_KEYS if isinstance(value := fields.get(key), str)), "")
    return _Record(
        message=message,
        rank=rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 10**6 else None,
        host=_SURROGATE.sub("\ufffd", clean(host))[:80] if host else None,
        time=next((time for key in _TIME_KEYS if key in fields and (time := read_time(fields[key]))), None),
        level=level_name(level),
        metrics=any(isinstance(value, (int, float)) and _METRIC_KEY.search(key) for key, value in fields.items()),
    )


def _message(fields: dict[str, Any], depth: int = 0) -> str | None:
    for key in _MESSAGE_KEYS:
        value = fields.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and depth < 3 and (inner := _message(value, depth + 1)) is not None:
            extra = value.get("extraInfo")  # the error files that torchrun's children leave
            stack = extra.get("py_callstack") if isinstance(extra, dict) else None
            return f"{stack}\n{inner}" if isinstance(stack, str) and inner not in stack else inner
    return None


def _whole_rows(rows: Sequence[str | None]) -> Iterator[tuple[int, str | None, str | None]]:
    """Yield (index, text, quote) of each row; a container's line that its runtime cut into pieces becomes one.

    The index is that of the first piece. The quote is None where it is the row itself.
    """
    held: dict[str, tuple[int, list[str], str | None]] = {}
    for index, row in enumerate(rows):
        if row and row[0] == "2" and (match := _CRI.match(row)):
            stream = f"cri {match[2]}"
            first, pieces, quote = held.pop(stream, (index, [match[1] + "F "], row))
            pieces.append(row[match.end() :])
            if match[3] == "P":
                held[stream] = (first, pieces, quote)
            else:
                yield first, "".join(pieces), quote
        elif row and row.startswith('{"log":') and (docker := _docker(row)):
            message, stream, time = docker
            first, pieces, quote = held.pop(stream, (index, [f"{time} " if time else ""], None))
            pieces.append(message)
            if message.endswith("\n"):
                yield from _docker_lines(first, pieces)
            else:
                held[stream] = (first, pieces, quote)
        else:
            yield index, row, None
    for first, pieces, quote in held.values():
        if quote is None:
            yield from _docker_lines(first, pieces)
        else:
            yield first, "".join(pieces), quote


def _docker_lines(index: int, pieces: list[str]) -> Iterator[tuple[int, str, str]]:
    for said in _plain("".join(pieces[1:])).rstrip("\n").split("\n"):
        yield index, pieces[0] + said, said.replace("\r", "")


def _docker(row: str) -> tuple[str, str, str] | None:
    """Return (log, stream, time) of a line of Docker's json-file driver."""
    if len(row) > _LONGEST_RECORD:
        return None
    try:
        fields = json.loads(row)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(log := fields.get("log"), str):
        return None
    time = fields.get("time")
    if "stream" not in fields:
        return None
    return (
        _SURROGATE.sub("\ufffd", log),
        str(fields["stream"]),
        time if isinstance(time, str) and read_time(time) else "",
    )


# --- the rest of a line ----------------------------------------------------------------------------------------------

_COLOUR = re.compile(r"(?:\^\[|\ufffd|\\x1b|\\033|\\u001b|␛)?\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m")
_COLOUR_STARTS = frozenset("[^\\\ufffd␛")
_COLOUR_FIRST = re.compile(r"\S{0,6}\[(?:0|1|[39]\d|[01];3\d)m")
_BOX_SIDES = "│┃║"
_BOX_EDGES = "╭╮╰╯─━═┌┐└┘├┤┬┴┼┏┓┗┛┡┩╇┳┻╞╡╪ \t"
_BOX = frozenset("│┃║╭╰┌└├┏┗┡╞")
_ESCAPED_LINE_END = re.compile(r"(?<!\\)\\n")
_FILE_HEADER = re.compile(r"==> (\S[^\n]{0,300}) <==$")
_FULL_DATE = re.compile(
    r"(?<![\d.-])(20[0-4]\d)[-/](0[1-9]|1[0-2])[-/](0[1-9]|[12]\d|3[01])[T _,-]{1,2}[0-2]\d:[0-5]\d"
)


def _unboxed(text: str) -> str:
    """Strip the borders of a box that rich or IPython drew; what stands in an edge (a title) stays."""
    stripped = text.strip()
    if stripped[:1] not in _BOX_SIDES:
        return stripped.strip(_BOX_EDGES)
    for _ in range(3):
        closed = len(stripped) > 1 and stripped[-1] in _BOX_SIDES
        inner = stripped[1:-1] if closed else stripped[1:]
        text = inner[1:] if inner[:1] == " " else inner
        stripped = text.strip()
        if not (closed and stripped[:1] in _BOX):
            break
        if stripped[0] not in _BOX_SIDES:
            return stripped.strip(_BOX_EDGES)
    return text.rstrip()


class _Calendar:
    """Fills in what printed times leave out, from full dates in the same log."""

    def __init__(self, text: str) -> None:
        first = _FULL_DATE.search(text, 0, 400_000)
        self.known: datetime | None = None
        if first:
            self.known = read_time(first[0] + ":00")

    def place(self, time: datetime) -> datetime:
        """Return `time` in the year, or on the day, that the log was at; unchanged when the log has said neither."""
        if self.known and not 1970 <= self.known.year <= 2200:
            self.known = None  # Go's and .NET's zero time is no date to reckon from
        if time.year == UNKNOWN_YEAR and self.known:
            try:
                time = time.replace(year=self.known.year)
            except ValueError:  # 29 February of a year that has none
                return time
        elif time.year == UNKNOWN_DAY.year and self.known:
            known = self.known.replace(tzinfo=None)
            time = datetime.combine(known.date(), time.time())
            if time < known - timedelta(hours=12):
                time += timedelta(days=1)
        if time.year != UNKNOWN_DAY.year:
            self.known = time
        return time


def read_lines(
    data: bytes | str,
    *,
    file: str | None = None,
    rank: int | None = None,
    local_rank: int | None = None,
    host: str | None = None,
    first_number: int = 1,
) -> list[Line]:
    """Return the lines of a log, or of a piece of it, in physical order. Any input is valid; nothing is raised.

    `first_number` is the number of the first line of `data`. `rank`, `local_rank` and `host` hold where a line's own
    prefix does not say otherwise. Runs of blank lines are cut to three, long lines to their first 8,000 and last 2,000
    characters.
    """
    text = _plain(decode(data) if isinstance(data, bytes) else data)
    rows = text.split("\n")
    if not rows[-1]:
        rows.pop()
    if "\r" in text:
        rows = [row.rstrip("\r") for row in rows]
    bare = _without_numbers(_without_quote_marks(rows))
    labels = _has_labels(bare)
    calendar = _Calendar(text)
    lines: list[Line] = []
    where: tuple[int | None, int | None, str | None, str] = (rank, local_rank, host, "")

    def add(number: int, said: str, quote: str, prefix: Prefix, record: _Record | None = None) -> None:
        own_rank = prefix.rank if prefix.rank is not None or record is None else record.rank
        time = (record and record.time) or prefix.time
        speaker = prefix.speaker
        if record and not speaker:
            speaker = record.host or "" if record.rank is None else f"rank{record.rank}"
        lines.append(
            Line(
                number,
                said if len(said) <= _LONGEST else f"{said[:_HEAD_CHARACTERS]} … {said[-_TAIL_CHARACTERS:]}",
                quote[:_LONGEST],
                file,
                own_rank if own_rank is not None else where[0],
                prefix.local_rank if prefix.local_rank is not None else where[1],
                prefix.host or (record and record.host) or where[2],
                calendar.place(time) if time is not None else None,
                (record and record.level) or prefix.level,
                f"{where[3]}/{speaker}".rstrip("/") if where[3] else speaker,
            )
        )

    def say(number: int, said: str, quote: str) -> None:
        """Add one logical line, or the several that its message holds; its prefix is not split yet."""
        if "[0m" in said or (said[:1] in _COLOUR_STARTS and _COLOUR_FIRST.match(said)):
            said = _COLOUR.sub("", said)
        prefix = split_prefix(said, labels=labels)
        message = prefix.text
        start = message[:1]
        if start == "{" and message[1:2] in ('"', " ") and (record := _record(message)):
            for piece in _plain(record.message).rstrip("\n").replace("\r", "\n").split("\n", _MOST_PIECES):
                # What a program printed was collected with the prefix that its launcher gave it.
                inner = split_prefix(piece, labels=False)
                add(number, inner.text, piece, _within(prefix, inner), record)
            if record.metrics:
                add(number, message, quote, prefix, record)
        elif start in _BOX or (start == " " and message.lstrip()[:1] in _BOX):
            add(number, _unboxed(message), quote, prefix)
        elif "\\n  File" in message:
            quote = quote[:_LONGEST]
            for piece in _ESCAPED_LINE_END.split(message, _MOST_PIECES):
                add(number, piece.replace("\\t", "\t").replace('\\"', '"').replace("\\'", "'"), quote, prefix)
        else:
            add(number, message, quote, prefix)

    blanks = 0
    ordered = True
    for index, row, quote in _whole_rows(_without_wraps(bare)):
        if row is None:
            continue
        number = first_number + index
        ordered = ordered and (not lines or lines[-1].number <= number)
        if not row or row.isspace():
            blanks += 1
            if blanks <= _BLANK_RUN:
                say(number, "", "")
            continue
        blanks = 0
        original = rows[index] if quote is None else quote
        several = "%|" in row or row.find("[rank", 1) > 0 or row.find("Traceback (", 1) > 0
        if "\r" in row or (several and '{"' not in row):  # a JSON record is one thing, whatever its message holds
            for state in _states(row):
                for piece in _unglued(state):
                    say(number, piece, piece if quote is None else original)
            continue
        if row.startswith("==> ") and (header := _FILE_HEADER.match(row)):
            path = header[1]
            told = hints(path)
            where = (
                rank if told.rank is None else told.rank,
                local_rank if told.local_rank is None else told.local_rank,
                told.host or host,
                path,
            )
        say(number, row, original)
    return lines if ordered else sorted(lines, key=lambda line: line.number)


def _within(outer: Prefix, inner: Prefix) -> Prefix:
    """Return `inner` with what only `outer` says."""
    return Prefix(
        inner.text,
        outer.rank if inner.rank is None else inner.rank,
        outer.local_rank if inner.local_rank is None else inner.local_rank,
        inner.host or outer.host,
        outer.time or inner.time,
        inner.level or outer.level,
        f"{outer.speaker}/{inner.speaker}".strip("/"),
    )
