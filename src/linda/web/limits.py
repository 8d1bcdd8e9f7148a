"""How much one request may ask for. Beyond it the answer is 413, 422 or 429, and nothing is computed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 2 * 2**20  # of a JSON request
    upload_bytes: int = 64 * 2**20  # of an uploaded table
    text_characters: int = 2_000  # of one text of a JSON request
    rows: int = 256  # texts of one request: pairs × ratios × candidates
    beams: int = 16
    waiting_rows: int = 1_024  # of all requests together, not yet being decoded
    augment_rows: int = 2_000  # originals and new rows of one /v1/augment request
    table_rows: int = 1_000_000  # of an uploaded table
    waiting_jobs: int = 8  # previews and runs that are not finished
    tables: int = 8  # uploaded files that are kept; the one used longest ago is removed first
