"""Errors that a user can mend, and the checks of texts and ratios that raise them.

Everything else is a bug and keeps its traceback.
"""

from typing import Any


class LindaError(ValueError):
    """A wrong value, file or model: the message names what was found and the way out.

    The command line prints it as one line on standard error and exits with code 2.
    """


def checked_text(value: Any, name: str) -> str:
    """A text with at least one character that is not white space. `name` is what messages call it."""
    if not isinstance(value, str):
        raise LindaError(f"{name} is {value!r}, not a text")
    if not value.strip():
        raise LindaError(f"{name} is empty; give a text with at least one word")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        position = error.start + 1
        raise LindaError(f"{name} holds half a character at position {position}; give valid Unicode") from error
    return value


def checked_ratio(value: Any, name: str = "alpha") -> float:
    """A number between 0 and 1, both included. `name` is what messages call it."""
    try:
        if isinstance(value, bool):
            raise TypeError
        ratio = float(value)
    except (TypeError, ValueError, OverflowError):
        raise LindaError(f"{name} is {value!r}, not a number between 0 and 1") from None
    if not 0 <= ratio <= 1:  # not-a-number fails this too
        raise LindaError(f"{name} is {ratio:g}; it must lie between 0 (the second text) and 1 (the first)")
    return ratio
