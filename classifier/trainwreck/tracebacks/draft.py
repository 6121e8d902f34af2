"""A record while it is being read: the one mutable thing of the parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trainwreck.diagnosis import Frame

__all__ = ["Draft", "Link"]

_MAX_MESSAGE_LINES = 200

Link = Literal["cause", "context", "group", "remote"]


@dataclass(slots=True, eq=False)
class Draft:
    """An exception record in the making; `previous` still points to another draft."""

    kind: Literal["python", "native", "other"] = "python"
    type: str = ""
    message: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    at: int = -1
    link: Link | None = None
    previous: Draft | None = None
    innermost_first: bool = False
    """The log printed the frames innermost first."""

    became: Draft | None = None
    """The record that this one turned out to be a part of; it is then no record of its own."""
    has_header: bool = False
    """Its frames were announced by `Traceback (most recent call last)`."""
    abandoned: bool = False
    """Only its header was seen before other lines came: a record only if its frames turn up under another prefix."""
    quoted: bool = False
    """The log showed it between quotation marks: the text of another process's traceback."""

    def name(self, index: int, type_: str, message: str = "") -> None:
        """Take line `index` as the one that names the type."""
        self.type, self.at = type_, index
        self.members.append(index)
        if message:
            self.message.append(message)

    def say(self, index: int, text: str) -> None:
        """Take line `index` as more of the message."""
        self.members.append(index)
        if len(self.message) < _MAX_MESSAGE_LINES:
            self.message.append(text.rstrip())

    def merge_into(self, other: Draft) -> None:
        """Give up being a record: the lines become part of `other`."""
        if len(self.members) > len(other.members):  # so that a long row of merges stays linear
            self.members += other.members
            other.members = self.members
        else:
            other.members += self.members
        self.became = other

    def standing(self) -> Draft:
        """Return the record that this one is part of now: itself, or what it was merged into."""
        last = self
        while last.became is not None:
            last = last.became
        step = self
        while step.became is not None and step.became is not last:
            step.became, step = last, step.became
        return last

    def follow(self, link: Link, previous: Draft) -> None:
        """Chain this record to `previous`. One of the two must be new, so that links can never form a circle."""
        self.link, self.previous = link, previous

    def wrap(self, inner: Draft, link: Link = "remote") -> None:
        """Make `inner`, a new record, the one that this one re-raises; what this one followed, `inner` follows."""
        if self.previous is not None and inner.previous is None:
            inner.link, inner.previous = self.link, self.previous
        self.link, self.previous = link, inner
