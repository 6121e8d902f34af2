"""The taxonomy as pages to browse: one an entry, and indexes by family, owner, retry verdict, framework, alias, fingerprint and code.

Needs PyYAML and jsonschema (extra `train` or `dev`); nothing at run time imports this.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwreck.render.document import entry_to_markdown
from trainwreck.taxonomy_build import FAMILIES, read_codes, read_entries

__all__ = ["pages", "write_pages"]

RECALLED = "recalled"
_VERDICTS = {
    "restart": "A restart as it is likely succeeds",
    "elsewhere": "Restart on other nodes and cordon this one",
    "stop": "It fails again until something is changed",
    "after": "Restart after a condition clears",
    "none": "Nothing to restart",
    "unknown": "The log does not tell",
}
_PROJECT = re.compile(r"[A-Za-z][\w.+-]*")

Entry = Mapping[str, Any]


def pages(folder: Path) -> dict[str, str]:
    """Return the Markdown of every page by its path below `docs/taxonomy/`, made from the YAML files under `folder`.

    Raises TaxonomyError as `taxonomy_build.read_entries` does.
    """
    entries = read_entries(folder)
    made = {f"{entry['family']}/{entry['id']}.md": _entry_page(entry) for entry in entries}
    made["index.md"] = _by_family(entries)
    made["by-owner.md"] = _grouped("By owner", "Who can fix it.", entries, lambda e: str(e["owner"]).split("/"))
    made["by-retry.md"] = _grouped(
        "By retry verdict", "What an unattended restart would do.", entries, lambda e: [e["retry"]], _VERDICTS
    )
    made["by-framework.md"] = _grouped(
        "By framework", "Where the wording of at least one fingerprint comes from.", entries, _projects
    )
    made["aliases.md"] = _aliases(entries)
    made["fingerprints.md"] = _fingerprints(entries)
    made["codes.md"] = _codes(read_codes(folder), {e["id"]: e["family"] for e in entries})
    return made


def write_pages(folder: Path, out: Path) -> int:
    """Write `pages(folder)` under `out`, remove pages of entries that are gone, and return how many there are."""
    made = pages(folder)
    for stale in set(out.rglob("*.md")) - {out / name for name in made}:
        stale.unlink()
    for name, text in made.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return len(made)


def _link(entry: Entry, up: str = "") -> str:
    return f"[{entry['id']}]({up}{entry['family']}/{entry['id']}.md)"


def _cell(text: object) -> str:
    """Text for a cell of a table: on one line, no markup of its own."""
    return re.sub(r"([\\`*_|<>\[\]{}#])", r"\\\1", " ".join(str(text).split()))


def _code(text: object) -> str:
    """A pattern as code in a cell. A bar would end the cell even there, so HTML stands in for it."""
    escaped = re.sub(r"[&<>|`*_\[\]{}\\#~$]", lambda m: f"&#{ord(m[0])};", " ".join(str(text).split()))
    return f"<code>{escaped}</code>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def _entry_page(entry: Entry) -> str:
    body = entry_to_markdown({key: value for key, value in entry.items() if key != "fingerprints"})
    rows = [
        (_cell(f["id"].split("/", 1)[1]), f["role"], "yes" if f["specific"] else "no", _shown(f), _cell(f["source"]))
        for f in entry.get("fingerprints", ())
    ]
    table = _table(("name", "role", "names the mechanism", "pattern or condition", "where it is known from"), rows)
    return "\n".join([body.replace("## ", "# ", 1).rstrip(), "", "### Fingerprints", "", *table, ""])


def _shown(fingerprint: Mapping[str, Any]) -> str:
    shown = [_code(fingerprint.get("pattern") or fingerprint["metrics"])]
    shown += [
        f"{name.replace('_', ' ')} {_code(fingerprint[name])}"
        for name in ("when", "unless", "exception", "frames", "unless_frames", "context", "unless_context")
        if name in fingerprint
    ]
    return "<br>".join(shown)


def _by_family(entries: Sequence[Entry]) -> str:
    out = ["# What can go wrong", "", f"{len(entries)} classes. A class is one thing to do next.", ""]
    for family in FAMILIES:
        out += [f"## {family}", ""]
        rows = [(_link(e), _cell(e["title"]), _cell(e["owner"]), e["retry"]) for e in entries if e["family"] == family]
        out += [*_table(("class", "what it is", "owner", "restart?"), rows), ""]
    return "\n".join(out)


def _grouped(
    title: str, about: str, entries: Sequence[Entry], keys: Any, words: Mapping[str, str] | None = None
) -> str:
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        for key in dict.fromkeys(keys(entry)):
            groups[key].append(entry)
    out = [f"# {title}", "", about, ""]
    for key in sorted(groups, key=str.lower):
        out += [f"## {key}", ""]
        out += [f"{words[key]}.", ""] if words else []
        out += [f"- {_link(entry)}: {_cell(entry['title'])}" for entry in groups[key]] + [""]
    return "\n".join(out)


def _projects(entry: Entry) -> list[str]:
    """The projects that the entry's fingerprints name as sources, as the first word of each part of a source."""
    parts = [part.strip() for f in entry.get("fingerprints", ()) for part in re.split(r"[;]", str(f["source"]))]
    found = [match[0].lower().rstrip(".") for part in parts if (match := _PROJECT.match(part))]
    return [
        name for name in found if name not in (RECALLED, "the", "a", "and", "seen", "metric", "plain", "old", "names")
    ]


def _aliases(entries: Sequence[Entry]) -> str:
    rows = sorted(((alias, e) for e in entries for alias in e.get("aliases", ())), key=lambda row: row[0].lower())
    table = _table(("also called", "class"), [(_cell(alias), _link(entry)) for alias, entry in rows])
    return "\n".join(["# By other names", "", *table, ""])


def _fingerprints(entries: Sequence[Entry]) -> str:
    every = [(e, f) for e in entries for f in e.get("fingerprints", ())]
    recalled = sum(RECALLED in str(f["source"]) for _, f in every)
    roles = Counter(f["role"] for _, f in every)
    out = [
        "# Fingerprints",
        "",
        f"{len(every)} fingerprints: {', '.join(f'{count} {role}' for role, count in roles.most_common())}. "
        f"The wording of {recalled} is only remembered; of the others the source is named.",
        "",
    ]
    rows = [(_link(e), _cell(f["id"].split("/", 1)[1]), f["role"], _shown(f)) for e, f in every]
    return "\n".join([*out, *_table(("class", "name", "role", "pattern or condition"), rows), ""])


def _codes(tables: Sequence[Mapping[str, Any]], family: Mapping[str, str]) -> str:
    out = ["# Codes", ""]
    for table in tables:
        rows = [
            (
                _cell(row["code"]),
                _cell(row["name"]),
                f"[{row['class']}]({family[row['class']]}/{row['class']}.md)" if row["class"] else "nothing alone",
                _cell(row["meaning"]),
            )
            for row in table["codes"]
        ]
        out += [f"## {table['title']}", "", f"Source: {_cell(table['source'])}.", ""]
        out += [*_table(("code", "name", "class", "meaning"), rows), ""]
    return "\n".join(out)
