"""`trainwreck explain` and `trainwreck taxonomy`: what can go wrong, to read, search, build and check."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainwreck.cli.screen import FAILURE, USAGE, Command, CommandGroup, Format, complain, emit, uses_color, width
from trainwreck.errors import UsageError
from trainwreck.taxonomy import UNKNOWN

if TYPE_CHECKING:
    from trainwreck.taxonomy import Entry, Taxonomy

__all__ = ["EXPLAIN_HELP", "app", "explain"]

EXPLAIN_HELP = """Explain a failure class: why it happens, how to make sure, the fix, what it is mistaken for.

WHAT is the id of a class, another name for it, a code, or a line of a log.

\b
Examples:
  trainwreck explain gpu-out-of-memory
  trainwreck explain "Xid 79"
  trainwreck explain CUDNN_STATUS_EXECUTION_FAILED
  trainwreck explain "RuntimeError: Expected all tensors to be on the same device"
  trainwreck explain fp16-overflow --json
"""

app = typer.Typer(
    cls=CommandGroup,
    help="List, search, build and check the failure taxonomy.",
    rich_markup_mode=None,
    invoke_without_command=True,
)

_MODEL = Annotated[
    Path | None, typer.Option("--model", metavar="BUNDLE", help="Another bundle folder than the built-in one.")
]
_JSON = Annotated[bool, typer.Option("--json", help="As JSON.")]
_SOURCE = Annotated[
    Path | None, typer.Option("--source", metavar="DIR", help="The folder of YAML entries (default: ./taxonomy).")
]


def explain(
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT...", help="An id, another name, a code, or a line of a log.")
    ],
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    model: _MODEL = None,
) -> int:
    """Explain one entry; see `EXPLAIN_HELP`."""
    entry = _entry(" ".join(what), model).content
    if output is Format.TEXT and not as_json:
        from trainwreck.render.terminal import render_entry

        emit(render_entry(entry, console_width=width(), color=uses_color(sys.stdout)))
        return 0
    from trainwreck.render.document import entry_to_html, entry_to_markdown, to_json

    if as_json or output is Format.JSON:
        emit(to_json(dict(entry)))
    else:
        emit(entry_to_html(entry) if output is Format.HTML else entry_to_markdown(entry))
    return 0


def _entry(words: str, model: Path | None) -> Entry:
    """The entry that `words` name, or speak of as a line of a log. Raises UsageError with the closest names."""
    taxonomy = _taxonomy(model)
    if entry := taxonomy.named(words):
        return entry
    if " " in words or "_" in words:
        from trainwreck.diagnoser import Diagnoser

        label = Diagnoser(model).diagnose(words + "\n").label
        if label != UNKNOWN:
            return taxonomy[label]
        if found := taxonomy.search(words):
            return found[0]
    return taxonomy[words]


@app.callback()
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n")
        raise typer.Exit(USAGE)


@app.command("list", cls=Command)
def list_entries(
    family: Annotated[str | None, typer.Option("--family", metavar="F", help="Only this family.")] = None,
    as_json: _JSON = False,
    model: _MODEL = None,
) -> int:
    """List the failure classes by family.

    \b
    Examples:
      trainwreck taxonomy list
      trainwreck taxonomy list --family distributed
    """
    taxonomy = _taxonomy(model)
    entries = [entry for entry in taxonomy.entries.values() if family in (None, entry.family)]
    if not entries:
        families = ", ".join(dict.fromkeys(entry.family for entry in taxonomy.entries.values()))
        raise UsageError(f"there is no family {family!r}; there are: {families}")
    _show(entries, as_json, by_family=True)
    return 0


@app.command("search", cls=Command, short_help="Find failure classes by words.")
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...")], as_json: _JSON = False, model: _MODEL = None
) -> int:
    """Find the failure classes that speak of all these words, the best first.

    \b
    Examples:
      trainwreck taxonomy search nccl timeout
      trainwreck taxonomy search "loss scale"

    Exit codes: 0 found, 1 nothing found.
    """
    found = _taxonomy(model).search(" ".join(words))
    if not found and not as_json:
        return complain(f"no failure class speaks of {' '.join(words)!r}; try fewer words", FAILURE)
    _show(found, as_json, by_family=False)
    return 0 if found else FAILURE


@app.command("build", cls=Command, short_help="Compile the YAML entries into a bundle.")
def build(
    source: _SOURCE = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The bundle folder to write to (default: the built-in one)."),
    ] = None,
) -> int:
    """Compile the YAML entries into the taxonomy of a bundle.

    \b
    Example:
      trainwreck taxonomy build --source taxonomy --out my-bundle
    """
    _need_extras()
    from trainwreck.bundle import DEFAULT
    from trainwreck.taxonomy_build import compile_taxonomy, serialise

    entries = _source(source)
    if out is None and entries.resolve().parent not in DEFAULT.resolve().parents:
        raise UsageError(f"{entries} is not the taxonomy of this installation, whose bundle stays as it is; give --out")
    compiled = compile_taxonomy(entries)
    folder = out or DEFAULT
    try:
        _write_bundle(folder, serialise(compiled))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from error
    fingerprints = sum(len(entry["fingerprints"]) for entry in compiled["entries"])
    classes, version = len(compiled["entries"]), compiled["version"]
    emit(f"{folder}: {classes} entries, {fingerprints} fingerprints, version {version}\n")
    return 0


@app.command("docs", cls=Command, short_help="Write the pages of docs/taxonomy.")
def docs(
    source: _SOURCE = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")] = Path("docs/taxonomy"),
) -> int:
    """Write a Markdown page for each entry, and indexes by family, owner, retry verdict, framework, alias and code.

    \b
    Example:
      trainwreck taxonomy docs && mkdocs build
    """
    _need_extras()
    from trainwreck.taxonomy_docs import write_pages

    try:
        count = write_pages(_source(source), out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror}); choose another --out") from error
    emit(f"{out}: {count} pages\n")
    return 0


@app.command("check", cls=Command, short_help="Run the examples of every fingerprint.")
def check(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Only these entries.")] = None,
    source: _SOURCE = None,
) -> int:
    """Validate the YAML entries and run every example and counterexample of their fingerprints.

    \b
    Examples:
      trainwreck taxonomy check
      trainwreck taxonomy check gpu-out-of-memory

    Exit codes: 0 all hold, 1 there are problems.
    """
    _need_extras()
    from trainwreck.taxonomy_check import run_examples

    report = run_examples(_source(source), ids or ())
    for problem in report.problems:
        complain(problem, FAILURE)
    emit(f"{report.entries} entries, {report.examples} examples run, {len(report.problems)} problems\n")
    return FAILURE if report.problems else 0


def _taxonomy(model: Path | None) -> Taxonomy:
    from trainwreck.bundle import load_bundle

    return load_bundle(model).taxonomy


def _show(entries: Sequence[Entry], as_json: bool, *, by_family: bool) -> None:
    if as_json:
        from trainwreck.render.document import to_json

        emit(to_json([dict(entry.content) for entry in entries]))
        return
    from trainwreck.render.page import clean

    longest = max(len(entry.id) for entry in entries)
    lines: list[str] = []
    family = ""
    for entry in entries:
        if by_family and entry.family != family:
            family = entry.family
            lines += ["", family] if lines else [family]
        lines.append(f"{'  ' if by_family else ''}{entry.id:<{longest}}  {' '.join(entry.title.split())}")
    emit(clean("\n".join(lines)) + "\n")


def _source(given: Path | None) -> Path:
    """The folder of YAML entries: as given, else `./taxonomy`, else that of the checkout this package runs from."""
    places = [given] if given else [Path("taxonomy"), Path(__file__).parents[3] / "taxonomy"]
    for place in places:
        if (place / "entry.schema.json").is_file():
            return place
    named = given or "this folder and the installation"
    raise UsageError(
        f"{named}: no taxonomy there (a folder with entry.schema.json and <family>/<id>.yaml); give --source"
    )


def _need_extras() -> None:
    try:
        import jsonschema  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as error:
        raise UsageError(f"this needs {error.name}, which is not installed: pip install PyYAML jsonschema") from error


def _write_bundle(folder: Path, taxonomy: str) -> None:
    import json

    from trainwreck.bundle import DEFAULT, write_manifest

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "taxonomy.json").write_text(taxonomy, encoding="utf-8")
    if not (folder / "config.json").exists():
        # A new bundle starts with the measured precision of the rules that ship.
        config: dict[str, Any] = json.loads((DEFAULT / "config.json").read_text(encoding="utf-8"))
        config["name"] = folder.resolve().name
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    write_manifest(folder)
