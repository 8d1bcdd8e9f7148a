"""A small file that holds one JSON object: the settings of a model, of a classifier or of a run."""

import json
from pathlib import Path
from typing import Any

from linda.errors import LindaError, os_reason, reason
from linda.files.paths import check_regular_file

_MAX_BYTES = 256 * 2**20  # a vocabulary of a million tokens has 30 MB


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; anything else is a `LindaError` that names the file."""
    check_regular_file(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise LindaError(f"{path} has {path.stat().st_size:,} bytes, too many for a JSON file; download it again")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LindaError(f"cannot read {path}: {os_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, LindaError):
            raise
        raise LindaError(f"{path} is not valid JSON ({reason(error)}); download or write it again") from error
    if not isinstance(content, dict):
        raise LindaError(f"{path} does not contain a JSON object; download or write it again")
    return content
