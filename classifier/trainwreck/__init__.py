"""Tells why a machine-learning job died or went wrong, from its log alone.

>>> import trainwreck
>>> trainwreck.diagnose("RuntimeError: CUDA error: an illegal memory access was encountered").label
'cuda-kernel-fault'
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwreck.diagnoser import Diagnoser, Target
    from trainwreck.diagnosis import Diagnosis

__version__ = "0.1.0"
__all__ = ["Diagnoser", "Diagnosis", "__version__", "diagnose"]


def diagnose(log: Target) -> Diagnosis:
    """Return what failed first in `log`, by the bundle that ships.

    `str` and `bytes` are log text; a `pathlib.Path` is a file or a folder; a list of paths is one job that left several files.
    Raises InputError when a path cannot be read and UsageError when a one-line `str` names an existing file.
    """
    return _default().diagnose(log)


@cache
def _default() -> Diagnoser:
    from trainwreck.diagnoser import Diagnoser

    return Diagnoser()


def __getattr__(name: str) -> Any:
    # Importing the package must stay cheap: the CLI's help needs none of this.
    if name == "Diagnoser":
        from trainwreck.diagnoser import Diagnoser

        return Diagnoser
    if name == "Diagnosis":
        from trainwreck.diagnosis import Diagnosis

        return Diagnosis
    raise AttributeError(f"module 'trainwreck' has no attribute {name!r}")
