"""What all commands share: exit codes, output that cannot fail loudly, grouped help."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from typer.core import TyperCommand, TyperGroup

from trainwreck.errors import UsageError

__all__ = [
    "BAD_INPUT",
    "FAILURE",
    "HEALTHY",
    "INTERRUPTED",
    "OUR_ERROR",
    "PIPE_CLOSED",
    "UNKNOWN",
    "USAGE",
    "Command",
    "CommandGroup",
    "Format",
    "OutputClosed",
    "complain",
    "emit",
    "prepare_streams",
    "uses_color",
    "width",
]

HEALTHY, FAILURE, UNKNOWN = 0, 1, 2
USAGE, BAD_INPUT, OUR_ERROR = 64, 66, 70  # as in sysexits.h
INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 + SIGINT, 128 + SIGPIPE


class Format(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


class OutputClosed(Exception):  # noqa: N818 - not an error: the reader had enough
    """The program that reads the output went away (`| head`)."""


class Command(TyperCommand):
    """A command whose help lists its options under the names of their groups (`rich_help_panel`)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options group by group, in the order in which they are declared."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                panel = getattr(parameter, "rich_help_panel", None)
                default = "Other"
                if parameter.param_type_name == "argument":
                    default, record = "Arguments", (record[0].split(" <")[0], record[1])  # the type says nothing more
                groups.setdefault(panel or default, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


class CommandGroup(TyperGroup):
    """A group of commands that keeps the order in which they were declared."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in order."""
        return list(self.commands)


def prepare_streams() -> None:
    """Let no character that the terminal lacks stop the output."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def emit(text: str, out: Path | None = None) -> None:
    """Write `text` to stdout, or to the file `out`.

    Raises UsageError when the file cannot be written, OutputClosed when nobody reads stdout any more.
    """
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError(f"{out}: cannot be written ({error.strerror}); choose another --out") from error
        return
    if sys.stdout is None:
        raise OutputClosed
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:
        raise UsageError(f"the output cannot be written ({error.strerror})") from error


def complain(message: str, code: int) -> int:
    """Write one line to stderr and return `code`."""
    from trainwreck.render.page import clean

    # A name that the locale cannot decode holds half characters: `?` shows that something stands there.
    readable = message.encode("utf-8", "replace").decode("utf-8")
    print(f"trainwreck: {clean(' '.join(readable.split()))}", file=sys.stderr)  # noqa: T201
    return code


def uses_color(stream: TextIO) -> bool:
    """Whether to colour what goes to `stream`: a terminal, and neither NO_COLOR nor TERM=dumb."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def width() -> int:
    """Columns of the terminal; 100 when there is none and COLUMNS does not say."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns
