"""The bundle: one folder of JSON, text and ONNX that holds all that trainwreck knows. Loading one cannot run code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.errors import BundleError
from trainwreck.taxonomy import Taxonomy, load

__all__ = ["DEFAULT", "Bundle", "load_bundle", "write_manifest"]

DEFAULT = Path(__file__).parent / "bundles" / "default"
FORMAT = 1


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle."""

    name: str
    digest: str
    """SHA-256 of the manifest: two bundles with one digest answer alike."""
    taxonomy: Taxonomy
    precision: Mapping[str, float]
    """Measured share of right answers for each rule of decision (`rules.RULES`)."""


def load_bundle(folder: Path | None = None) -> Bundle:
    """Return the bundle in `folder` (the one that ships, by default).

    Raises BundleError when a file is missing, was changed since the manifest was written, or is of another format.
    """
    folder = DEFAULT if folder is None else folder
    manifest = _json(folder / "manifest.json")
    files = manifest.get("files")
    if not isinstance(files, dict) or not {"config.json", "taxonomy.json"} <= files.keys():
        raise BundleError(f"{folder}/manifest.json: names no config.json or no taxonomy.json. Build the bundle again.")
    for name, digest in files.items():
        if Path(name).name != name or "\0" in name:
            raise BundleError(f"{folder}/manifest.json: {name!r} is not a plain file name")
        if _sha256(folder / name) != digest:
            raise BundleError(
                f"{folder / name}: not the file that manifest.json describes. Install or build the bundle again."
            )
    config = _json(folder / "config.json")
    if config.get("format") != FORMAT:
        raise BundleError(
            f"{folder}/config.json: bundle format {config.get('format')}, this version of trainwreck reads {FORMAT}"
        )
    try:
        precision = {str(rule): min(1.0, max(0.0, float(value))) for rule, value in config.get("precision", {}).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise BundleError(f"{folder}/config.json: precision must name a number for each rule ({error})") from error
    return Bundle(
        name=str(config.get("name", folder.name)),
        digest=_sha256(folder / "manifest.json"),
        taxonomy=load(folder / "taxonomy.json"),
        precision=precision,
    )


def write_manifest(folder: Path) -> None:
    """Write `manifest.json`: the SHA-256 of every other file of the bundle in `folder`."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != "manifest.json")
    manifest = {"format": FORMAT, "files": {name: _sha256(folder / name) for name in names}}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise BundleError(f"{path}: is not a file")
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BundleError(
            f"{path}: {error.strerror}. A bundle is a folder that `trainwreck taxonomy build` made."
        ) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(
            f"{path}: {error.strerror}. A bundle is a folder that `trainwreck taxonomy build` made."
        ) from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: damaged ({error}). Install or build the bundle again.") from error
    if not isinstance(data, dict):
        raise BundleError(f"{path}: damaged (not a JSON object). Install or build the bundle again.")
    return data
