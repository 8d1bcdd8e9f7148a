"""Parsing and checks of option values: lists, ranges and ratios."""

from typing import Any

from linda.errors import LindaError, shortened


def listed(text: str | None) -> list[str]:
    """Split at commas, and remove duplicates."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip())) if text else []


def whole_numbers(text: str | None, option: str) -> list[int]:
    """Parse whole numbers from 1, such as `5,10`."""
    parts = listed(text)
    if not all(part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
        raise LindaError(f"{option} is {shortened(text)}; give whole numbers from 1, such as 5,10")
    return [int(part) for part in parts]


def imbalance_ratio(text: str) -> tuple[int, int]:
    """Parse `10:100`: rows of the rare class, and of every other class."""
    few, _, many = text.partition(":")
    if not (few.isdecimal() and many.isdecimal() and 0 < int(few) <= int(many)):
        raise LindaError(
            f"--imbalance is {text!r}; give rows of the rare class and rows of every other class, such as 10:100, "
            "or natural"
        )
    return int(few), int(many)


def share_of_rows(text: str, option: str) -> float:
    """Parse a share of at least 0 and below 1, such as `0.2`."""
    try:
        share = float(text)
        if not 0 <= share < 1:
            raise ValueError
    except ValueError:
        raise LindaError(f"{option} is {text!r}; give a share of at least 0 and below 1, such as 0.2") from None
    return share


def learning_rate(value: Any, option: str) -> float:
    """Parse a number between 0 and 1, such as `3e-5`."""
    try:
        number = float(value)
        if not 0 < number < 1:
            raise ValueError
    except ValueError:
        raise LindaError(f"{option} is {value!r}; give a number between 0 and 1, or search") from None
    return number


def block_range(text: str) -> tuple[int, int]:
    """Parse `0:40`: the first block, and the block after the last."""
    first, colon, stop = text.partition(":")
    if not (colon and first.isdecimal() and stop.isdecimal() and int(first) <= int(stop)):
        raise LindaError(f"--block-range is {text!r}; give the first block and the one after the last, such as 0:40")
    return int(first), int(stop)
