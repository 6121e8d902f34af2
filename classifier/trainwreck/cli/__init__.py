"""The command line: words in, exit code out. Imports of weight wait until a command needs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trainwreck import __version__
from trainwreck.cli import diagnose, taxonomy
from trainwreck.cli.screen import (
    BAD_INPUT,
    INTERRUPTED,
    OUR_ERROR,
    PIPE_CLOSED,
    USAGE,
    Command,
    CommandGroup,
    OutputClosed,
    complain,
    emit,
    prepare_streams,
)
from trainwreck.errors import BundleError, InputError, TrainwreckError

__all__ = ["app", "main"]

_HELP = """Tells why a machine-learning job died, from its log alone, on this machine.

\b
Examples:
  trainwreck diagnose train.log                 one log
  trainwreck diagnose logs/rank*.log            one job, one file a rank
  trainwreck diagnose logs/                     the same, from a folder
  kubectl logs my-job | trainwreck diagnose     from a pipe
  trainwreck diagnose train.log --json          for a program
  trainwreck explain gpu-out-of-memory          all that is known of a failure
  trainwreck taxonomy search nccl timeout       which failure is that?

\b
Exit codes:
  0    the log is that of a healthy run (or the command did what it was told)
  1    a failure was diagnosed
  2    there is a log, but no diagnosis
  64   the command cannot mean what it says
  66   the input (a log, a bundle) cannot be read
  70   an error of trainwreck itself
  130  interrupted; 141 the reader of the output went away

Nothing leaves this machine. Secrets in a log are masked unless --no-redact is given.
"""

app = typer.Typer(
    name="trainwreck",
    cls=CommandGroup,
    help=_HELP,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("diagnose", cls=Command, help=diagnose.HELP, short_help="Tell why the job of a log died.")(
    diagnose.diagnose
)
app.command("explain", cls=Command, help=taxonomy.EXPLAIN_HELP, short_help="Explain a failure class.")(taxonomy.explain)
app.add_typer(taxonomy.app, name="taxonomy")


@app.callback()
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        emit(f"trainwreck {__version__}\n")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        emit(context.get_help() + "\n")
        raise typer.Exit(USAGE)


@app.command("version", cls=Command)
def _show_version() -> int:
    """Show the versions of the program, the bundle and the taxonomy."""
    from trainwreck.bundle import load_bundle

    emit(f"trainwreck {__version__}\n")
    bundle = load_bundle()
    emit(f"bundle {bundle.name} {bundle.digest[:12]}\ntaxonomy {bundle.taxonomy.version}\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: that of the process) and return its exit code."""
    prepare_streams()
    try:
        code = app(args=None if argv is None else list(argv), prog_name="trainwreck", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OutputClosed, BrokenPipeError, SystemExit):
        # typer itself exits in this mode for one reason only: nobody read its help. Python flushes stdout once more at
        # the end and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (InputError, BundleError) as error:
        return complain(str(error), BAD_INPUT)
    except TrainwreckError as error:
        return complain(str(error), USAGE)
    except Exception as error:
        # typer's own usage errors: their class moved between its versions, their shape did not.
        if hasattr(error, "format_message"):
            return complain(f"{error.format_message()} `trainwreck --help` shows what there is.", USAGE)
        return _our_error(error)
    return code if isinstance(code, int) else 0


def _our_error(error: Exception) -> int:
    import traceback

    from trainwreck.redaction import redact

    if os.environ.get("TRAINWRECK_DEBUG") == "1":
        traceback.print_exception(error)
        return OUR_ERROR
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""  # noqa: PTH119 - no pathlib here
    # The message may quote the log.
    message = redact(" ".join(str(error).split())[:200])
    return complain(
        f"an error of trainwreck itself, {type(error).__name__}{place}: {message}. "
        "Please report it, with what TRAINWRECK_DEBUG=1 in the environment adds.",
        OUR_ERROR,
    )
