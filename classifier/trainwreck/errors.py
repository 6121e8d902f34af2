"""Every error that trainwreck raises on purpose. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

__all__ = ["BundleError", "InputError", "InputWarning", "TaxonomyError", "TrainwreckError", "UsageError"]


class TrainwreckError(Exception):
    """Base class: catch this to catch everything that trainwreck raises on purpose."""


class InputError(TrainwreckError):
    """A log cannot be read: missing, unreadable, broken archive, or not a regular file."""


class InputWarning(UserWarning):
    """A part of a job's logs cannot be read; the answer rests on the rest."""


class UsageError(TrainwreckError, ValueError):
    """A call or a command that cannot mean what it says."""


class TaxonomyError(TrainwreckError):
    """A taxonomy entry or fingerprint is not valid."""


class BundleError(TrainwreckError):
    """A model bundle is missing, damaged or of another version."""
