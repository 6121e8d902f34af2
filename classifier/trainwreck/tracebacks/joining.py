"""Joins what was read apart because only some lines of a process carried its prefix."""

from __future__ import annotations

from trainwreck.tracebacks.draft import Draft

__all__ = ["join"]

_STACK_REACH = 8
"""Lines between a watchdog's message and the C++ stack below it."""


def join(drafts: list[Draft]) -> list[Draft]:
    """Return `drafts` (by first line) with neighbours made one.

    Neighbours are a header and, right below it, frames without one; frames without a last line and, right below or
    above them, a last line without frames; a native message and the stack that follows it.
    """
    kept: list[Draft] = []
    ending_at: dict[int, Draft] = {}
    stackless: Draft | None = None
    for draft in drafts:
        first, last = min(draft.members), max(draft.members)
        above = ending_at.get(first - 1)
        if above is not None and _halves(above, draft):
            named, bare = (above, draft) if above.type else (draft, above)
            above.type, above.message, above.at = named.type, named.message, named.at
            above.frames, above.has_header = bare.frames, above.has_header or draft.has_header
            draft.merge_into(above)
            ending_at[last] = above
            continue
        if above is not None and _headed(above, draft):
            above.type, above.message, above.at, above.frames = draft.type, draft.message, draft.at, draft.frames
            if draft.previous is not None:
                above.link, above.previous = draft.link, draft.previous
            draft.merge_into(above)
            above.abandoned = False
            ending_at[last] = above
            continue
        if stackless is not None and draft.kind == "native" and not draft.type and draft.frames and not draft.message:
            if first - stackless.at <= _STACK_REACH:
                stackless.frames = draft.frames
                draft.merge_into(stackless)
                stackless = None
                continue
            stackless = None
        if draft.kind == "native" and not draft.type and not draft.frames:
            stackless = draft
        kept.append(draft)
        ending_at[last] = draft
    return [draft for draft in kept if not draft.abandoned]


def _headed(header: Draft, rest: Draft) -> bool:
    """Tell whether the first has a header only and the second all but the header."""
    if header.type or header.frames or not header.has_header or header.kind != "python":
        return False
    return bool(rest.frames) and not rest.has_header and rest.kind == "python"


def _halves(one: Draft, other: Draft) -> bool:
    """Tell whether one of two neighbours has only frames and the other only a type, and nothing else links them."""
    if one.kind != "python" or other.kind != "python" or one.previous or other.previous:
        return False
    return (not one.type and bool(one.frames) and bool(other.type) and not other.frames) or (
        bool(one.type) and not one.frames and not other.type and bool(other.frames) and not other.has_header
    )
