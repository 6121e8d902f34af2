"""`taxonomy/*.yaml` → a bundle's `taxonomy.json`: validation, and the literals that the scanner looks for.

Needs PyYAML and jsonschema (extra `train` or `dev`); nothing at run time imports this.
"""

from __future__ import annotations

import hashlib
import json
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import re2

from trainwreck.conditions import names_in
from trainwreck.errors import TaxonomyError
from trainwreck.facts import SUFFIXES, placeholders
from trainwreck.metrics.shape import SUMMARY_NAMES
from trainwreck.taxonomy import FORMAT, OUTCOMES

__all__ = [
    "compile_taxonomy",
    "entry_files",
    "raw_entries",
    "read_codes",
    "read_entries",
    "required_literals",
    "serialise",
]

SHORTEST_LITERAL = 4
CODES = "codes"
"""The folder of the tables of codes."""
_REGEX_FIELDS = ("pattern", "unless", "exception", "frames", "unless_frames", "context", "unless_context")
_NOT_SHIPPED = ("examples", "counterexamples", "source")
FAMILIES = (
    "numerics", "memory", "tensors", "data", "checkpoint", "distributed", "gpu", "environment", "storage", "process", "python", "outcome",
)  # fmt: skip


def entry_files(folder: Path) -> list[Path]:
    """Return the YAML files of all entries under `folder`, sorted. Raises TaxonomyError for a file outside the families' folders."""
    found = [path for path in sorted(folder.glob("*/*.yaml")) if path.parent.name != CODES]
    if strays := [path for path in found if path.parent.name not in FAMILIES]:
        raise TaxonomyError(f"{strays[0]}: {strays[0].parent.name!r} is no family; there are {', '.join(FAMILIES)}")
    return found


def read_codes(folder: Path) -> list[dict[str, Any]]:
    """Return the tables of codes under `folder/codes`, sorted by id. Raises TaxonomyError naming the file and what is wrong."""
    import jsonschema
    import yaml

    tables = []
    for path in sorted((folder / CODES).glob("*.yaml")):
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
        schema = json.loads((folder / "codes.schema.json").read_text(encoding="utf-8"))
        for problem in jsonschema.Draft202012Validator(schema).iter_errors(table):
            raise TaxonomyError(f"{path}: {'/'.join(map(str, problem.absolute_path))}: {problem.message[:300]}")
        tables.append(table)
    return tables


def raw_entries(folder: Path, paths: Iterable[Path]) -> Iterator[tuple[Path, Any, list[str]]]:
    """Yield (path, what the YAML holds, all that is wrong with it by the schema of `folder`) for each of `paths`."""
    import jsonschema
    import yaml

    validator = jsonschema.Draft202012Validator(json.loads((folder / "entry.schema.json").read_text(encoding="utf-8")))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in paths:
        try:
            entry = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - a safe loader
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            yield path, None, [f"{path}: not valid YAML: {error}"]
            continue
        problems = []
        for wrong in validator.iter_errors(entry):
            where = "/".join(str(part) for part in wrong.absolute_path) or "the entry"
            problems.append(f"{path}: {where}: {wrong.message[:300]}")
        yield path, entry, problems


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """Return every entry under `folder` as its YAML file gives it, in order of family and id.

    Raises TaxonomyError naming the file, the field and what is wrong with it.
    """
    entries = []
    for path, entry, problems in raw_entries(folder, entry_files(folder)):
        if problems:
            raise TaxonomyError(problems[0])
        if entry["id"] != path.stem or entry["family"] != path.parent.name:
            raise TaxonomyError(
                f"{path}: says id {entry['id']!r} in family {entry['family']!r}: it must stand in that family's folder"
            )
        _check(entry, path)
        entries.append(entry)
    if not entries:
        raise TaxonomyError(f"{folder}: holds no entries (<family>/<id>.yaml)")
    ids = {entry["id"] for entry in entries}
    if missing := [outcome for outcome in OUTCOMES if outcome not in ids]:
        raise TaxonomyError(f"{folder}: lacks outcome/{missing[0]}.yaml, without which nothing can be diagnosed")
    for entry in entries:
        mentioned = [*entry.get("related", ()), *(t["id"] for t in entry.get("tell_apart", ()))]
        if unknown := sorted(set(mentioned) - ids):
            raise TaxonomyError(
                f"{entry['family']}/{entry['id']}.yaml: names classes that do not exist: {', '.join(unknown)}"
            )
    entries.sort(key=lambda entry: (FAMILIES.index(entry["family"]), entry["id"]))
    return entries


def _check(entry: dict[str, Any], path: Path) -> None:
    given: set[str] = set()
    seen: set[str] = set()
    for fingerprint in entry.get("fingerprints", ()):
        name = fingerprint["id"]
        if not name.startswith(entry["id"] + "/") or name in seen:
            raise TaxonomyError(f"{path}: fingerprint {name!r}: must be '{entry['id']}/<name>' and unique")
        seen.add(name)
        for field in _REGEX_FIELDS:
            if field in fingerprint:
                try:
                    compiled = re2.compile(fingerprint[field])
                except re2.error as error:
                    raise TaxonomyError(f"{path}: {name}: {field} is not a valid RE2 pattern: {error}") from error
                if field == "pattern":
                    given |= set(compiled.groupindex)
        for expression in (*fingerprint.get("facts", {}).values(), fingerprint.get("when"), fingerprint.get("metrics")):
            if expression is not None:
                names_in(str(expression))
        given |= set(fingerprint.get("facts", {}))
        if "pattern" in fingerprint:
            try:
                required_literals(fingerprint["pattern"])
            except TaxonomyError as error:
                raise TaxonomyError(f"{path}: {name}: {error}") from error
    for fact in given:
        if not fact.endswith(SUFFIXES):
            raise TaxonomyError(f"{path}: fact {fact!r}: the name must end in one of {' '.join(SUFFIXES)}")
    fixes = [entry.get("fix", {}), *(f.get("fix", {}) for f in entry.get("fingerprints", ()))]
    asked = {p for fix in fixes for text in _texts(fix.values()) for p in placeholders(text)}
    if missing := asked - given - SUMMARY_NAMES - {"failing_rank"}:
        raise TaxonomyError(
            f"{path}: fix asks for facts that no fingerprint of this entry gives: {', '.join(sorted(missing))}"
        )


def _texts(values: Iterable[Any]) -> Iterable[str]:
    return (value for value in values if isinstance(value, str))


def required_literals(pattern: str) -> tuple[str, ...]:
    """Return lower-case strings of which any text that matches `pattern` holds at least one (ASCII case folded).

    Raises TaxonomyError when some way through the pattern holds no literal of four characters.
    """
    try:
        parsed = sre_parser.parse(pattern)
    except Exception as error:
        raise TaxonomyError(f"pattern {pattern!r} cannot be analysed: {error}") from error
    literals = _best(parsed)
    if not literals or min(map(len, literals)) < SHORTEST_LITERAL:
        raise TaxonomyError(
            f"pattern {pattern!r} has a way through with no literal text of {SHORTEST_LITERAL} characters or more"
        )
    return tuple(sorted(literals))


def _best(items: Any) -> frozenset[str]:
    """The alternative literal sets that a sequence requires; the set whose shortest member is longest."""
    candidates: list[frozenset[str]] = []
    run: list[str] = []

    def end_run() -> None:
        if run:
            candidates.append(frozenset(["".join(run)]))
            run.clear()

    for op, argument in items:
        if op is sre.LITERAL and argument < 128:
            run.append(chr(argument).lower())
            continue
        if op is sre.IN and len(argument) == 2 and all(o is sre.LITERAL for o, _ in argument):
            folded = {chr(a).lower() for _, a in argument}
            if len(folded) == 1:  # [Ee]
                run.append(folded.pop())
                continue
        if op is sre.SUBPATTERN and argument[-1] and all(o is sre.LITERAL and a < 128 for o, a in argument[-1]):
            run.extend(chr(a).lower() for _, a in argument[-1])  # a plain group continues the run
            continue
        if op is sre.AT:
            continue
        end_run()
        if op is sre.SUBPATTERN:
            candidates.append(_best(argument[-1]))
        elif op is sre.BRANCH:
            parts = [_best(branch) for branch in argument[1]]
            candidates.append(frozenset().union(*parts) if all(parts) else frozenset())
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and argument[0] >= 1:
            candidates.append(_best(argument[2]))
    end_run()
    return max(candidates, key=lambda c: (min(map(len, c), default=0), -len(c)), default=frozenset())


def compile_taxonomy(folder: Path) -> dict[str, Any]:
    """Return what `taxonomy.json` holds for the YAML files under `folder`."""
    entries = read_entries(folder)
    shipped = []
    for entry in entries:
        fingerprints = []
        for fingerprint in entry.get("fingerprints", ()):
            kept = {key: value for key, value in fingerprint.items() if key not in _NOT_SHIPPED}
            kept["facts"] = {name: str(value) for name, value in fingerprint.get("facts", {}).items()}
            if "pattern" in kept:
                kept["literals"] = required_literals(kept["pattern"])
            fingerprints.append(kept)
        shipped.append({**entry, "fingerprints": fingerprints})
    codes = read_codes(folder)
    if unknown := {row["class"] for table in codes for row in table["codes"]} - {e["id"] for e in entries} - {None}:
        raise TaxonomyError(f"{folder / CODES}: names classes that do not exist: {', '.join(sorted(unknown))}")
    digest = hashlib.sha256(json.dumps([shipped, codes], sort_keys=True).encode()).hexdigest()
    return {"format": FORMAT, "version": f"1.{digest[:10]}", "entries": shipped, "codes": codes}


def serialise(taxonomy: dict[str, Any]) -> str:
    """Return `taxonomy` as the text of `taxonomy.json`: one entry a line, so that a change shows in a diff."""
    rows = ",\n".join(json.dumps(entry, ensure_ascii=False, sort_keys=True) for entry in taxonomy["entries"])
    codes = ",\n".join(json.dumps(table, ensure_ascii=False, sort_keys=True) for table in taxonomy["codes"])
    head = f'"format": {taxonomy["format"]}, "version": "{taxonomy["version"]}"'
    return f'{{{head}, "entries": [\n{rows}\n], "codes": [\n{codes}\n]}}\n'
