"""Limits of a request. If one is exceeded, the status is 413, 422 or 429, and nothing is computed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 2 * 2**20  # size of a JSON request
    upload_bytes: int = 64 * 2**20  # size of an uploaded table
    text_characters: int = 2_000  # length of one text in a JSON request
    rows: int = 256  # texts of one request: pairs × ratios × candidates
    beams: int = 16
    waiting_rows: int = 1_024  # queued rows of all requests
    augment_rows: int = 2_000  # originals and new rows of one /v1/augment request
    table_rows: int = 1_000_000  # rows of an uploaded table
    waiting_jobs: int = 8  # unfinished previews and runs
    tables: int = 8  # stored uploads; the least recently used is removed first
