"""`trainwreck diagnose`."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from trainwreck.cli.screen import FAILURE, HEALTHY, UNKNOWN, USAGE, Format, complain, emit, uses_color, width
from trainwreck.errors import InputError, InputWarning, UsageError

if TYPE_CHECKING:
    from trainwreck.diagnosis import Diagnosis
    from trainwreck.reading.sources import Source

__all__ = ["HELP", "diagnose"]

PIPE_SECONDS = 10.0
"""How long a named pipe may stay without a writer."""
IN_MEMORY_BYTES = 16 * 2**20
"""What a pipe may hold in memory; more goes to a temporary file."""

HELP = """Tell why the job of a log died: what, how sure, the proof, what to do now, and whether a restart helps.

Several files, or a folder, are the ranks of one job. Without FILE the log is read from a pipe. Compressed logs (gz,
bz2, xz, zst) are read as they are.

\b
Examples:
  trainwreck diagnose train.log
  trainwreck diagnose logs/rank0.log logs/rank1.log
  trainwreck diagnose logs/ --all
  kubectl logs my-job | trainwreck diagnose -
  trainwreck diagnose train.log --json | jq -r .retry
  trainwreck diagnose train.log --out report.html
  if [ "$(trainwreck diagnose -q train.log)" = preempted ]; then sbatch job.sh; fi

\b
Exit codes: 0 healthy, 1 a failure was diagnosed, 2 unknown, 64 usage,
66 the input cannot be read, 70 an error of trainwreck itself.
"""


_BY_SUFFIX = {
    ".json": Format.JSON,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
}

_OUTPUT, _ANSWER, _MODEL = "Output", "What is answered", "What answers"


def _named_path(text: str) -> Path:
    if not text:
        raise UsageError("an empty name names no log (an unset variable?); use . for this folder")
    return Path(text)


def diagnose(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE... | DIR | -", help="Logs of one job, a folder of them, or - for stdin.", parser=_named_path
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also the failures of other processes that the first does not explain.",
            rich_help_panel=_ANSWER,
        ),
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Add what decided, and why the runner-up lost.", rich_help_panel=_ANSWER)
    ] = False,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="precise|balanced|best-guess",
            help="Only sure answers; the default; or a guess rather than unknown.",
            rich_help_panel=_ANSWER,
        ),
    ] = "balanced",
    no_redact: Annotated[
        bool, typer.Option("--no-redact", help="Do not mask secrets found in the log.", rich_help_panel=_ANSWER)
    ] = False,
    output: Annotated[
        Format | None,
        typer.Option("--format", help="How to write it (text, or as --out is named).", rich_help_panel=_OUTPUT),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the label.", rich_help_panel=_OUTPUT)] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to FILE.", rich_help_panel=_OUTPUT)
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", metavar="BUNDLE", help="Another bundle folder than the built-in one.", rich_help_panel=_MODEL
        ),
    ] = None,
) -> int:
    """Diagnose a log; see `HELP`. Returns the exit code."""
    if not files and sys.stdin is not None and sys.stdin.isatty():
        emit(context.get_help() + "\n")
        return USAGE
    chosen = _format(output, as_json, quiet, out)
    _keep_inputs(files or [], out)
    from trainwreck.diagnoser import Diagnoser

    diagnoser = Diagnoser(model, mode=mode, redact=not no_redact)  # type: ignore[arg-type]  # it checks the mode itself
    with (
        _target(files or [Path("-")]) as target,
        _Progress() as advance,
        warnings.catch_warnings(record=True, category=InputWarning) as left_out,
    ):
        warnings.simplefilter("always", InputWarning)
        found = diagnoser.diagnose_all(target, advance)
    for warning in left_out:
        complain(str(warning.message), 0)
    if not every:
        found = found[:1]
    emit(_label_lines(found) if quiet else _written(found, chosen, every, why, out is not None), out)
    return _exit_code(found)


def _keep_inputs(files: Sequence[Path], out: Path | None) -> None:
    """Raise UsageError when the report would be written over a log."""
    if out is None or not out.exists():
        return
    for path in files:
        with contextlib.suppress(OSError):
            if path.samefile(out) or (path.is_dir() and path.resolve() in out.resolve().parents):
                raise UsageError(f"{out}: is among the logs to diagnose and would be overwritten; choose another --out")


def _format(output: Format | None, as_json: bool, quiet: bool, out: Path | None) -> Format:
    if as_json and output not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output} contradict each other; give one of them")
    if quiet and (as_json or output):
        raise UsageError("--quiet prints the label and nothing else; leave out --json and --format")
    if output:
        return output
    return Format.JSON if as_json else _BY_SUFFIX.get(out.suffix.lower(), Format.TEXT) if out else Format.TEXT


@contextlib.contextmanager
def _target(files: Sequence[Path]) -> Iterator[Path | list[Path] | Source]:
    """What to diagnose: one path, several, or what a pipe holds. Raises UsageError when `-` stands among others."""
    if len(files) > 1:
        if Path("-") in files:
            raise UsageError("- (stdin) is one whole log and cannot stand among other files")
        yield list(files)
    elif files[0] == Path("-"):
        if sys.stdin is None:
            raise InputError("stdin is closed; give a file")
        with _spooled(sys.stdin.buffer, "stdin") as source:
            yield source
    elif _is_pipe(files[0]):  # `<(kubectl logs my-job)`
        with _opened_pipe(files[0]) as stream, _spooled(stream, str(files[0])) as source:
            yield source
    else:
        yield files[0]


def _is_pipe(path: Path) -> bool:
    # What is wrong with a path is for the reader of sources to say.
    with contextlib.suppress(OSError, ValueError):
        return stat.S_ISFIFO(path.stat().st_mode)
    return False


def _opened_pipe(path: Path) -> IO[bytes]:
    """Open a named pipe. Raises InputError when nobody comes to write to it: opening it the plain way would wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ready, _, _ = select.select([descriptor], [], [], PIPE_SECONDS)
    if not ready:
        os.close(descriptor)
        raise InputError(f"{path}: is a pipe that nobody writes to; start the writer first, or give a file")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


@contextlib.contextmanager
def _spooled(stream: IO[bytes], called: str) -> Iterator[Source]:
    """What `stream` holds, on disk when it is large: a pipe can be read only once, and memory must not grow with a log."""
    from trainwreck.reading.sources import Source

    with contextlib.ExitStack() as stack:
        try:
            head = stream.read(IN_MEMORY_BYTES + 1)
            if len(head) <= IN_MEMORY_BYTES:
                source = Source(name=None, size=len(head), data=head)
            else:
                # A folder and not a temporary file: on Windows an open one cannot be opened again.
                path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainwreck-"))) / "log"
                with path.open("wb") as spool:
                    spool.write(head)
                    shutil.copyfileobj(stream, spool, 2**20)
                source = Source(name=None, size=path.stat().st_size, path=path)
        except OSError as error:
            raise InputError(f"{called}: cannot be read ({error.strerror}); give a file") from error
        yield source


class _Progress:
    """A line on the terminal for logs that take long; it appears with the first report, so that short ones show none."""

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._show: Callable[[int], None] = self._start if sys.stderr.isatty() else lambda _: None

    def __enter__(self) -> Callable[[int], None]:
        return lambda size: self._show(size)

    def __exit__(self, *_: object) -> None:
        if self._stop:
            self._stop()

    def _start(self, size: int) -> None:
        from rich.console import Console
        from rich.progress import DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

        columns = (TextColumn("reading"), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("reading", total=None)
        bar.start()
        self._stop = bar.stop
        self._show = lambda more: bar.update(task, advance=more)
        self._show(size)


def _label_lines(found: Sequence[Diagnosis]) -> str:
    from trainwreck.render.page import clean

    return "".join(f"{clean(diagnosis.label)}\n" for diagnosis in found)


def _written(found: Sequence[Diagnosis], chosen: Format, every: bool, why: bool, to_file: bool) -> str:
    if chosen is Format.TEXT:
        from trainwreck.render.terminal import render

        color = not to_file and uses_color(sys.stdout)
        columns = width()
        line = "\n" + "=" * min(columns, 60) + "\n\n"
        return line.join(render(d, console_width=columns, color=color, why=why) for d in found)
    from trainwreck.render import document

    if chosen is Format.MARKDOWN:
        return document.to_markdown(*found, why=why)
    if chosen is Format.HTML:
        return document.to_html(*found, why=why)
    return document.to_json([d.to_dict() for d in found] if every else found[0].to_dict())


def _exit_code(found: Sequence[Diagnosis]) -> int:
    labels = {diagnosis.label for diagnosis in found}
    if labels <= {"healthy"}:
        return HEALTHY
    return UNKNOWN if labels <= {"healthy", "unknown"} else FAILURE
