"""Errors that a user can fix, and checks of texts and numbers that raise them.

Any other exception is a bug and keeps its traceback.
"""

import math
from collections.abc import Sequence
from typing import Any

MAX_SEED = 2**64 - 1


class LindaError(ValueError):
    """A wrong value, file or model. The message names the bad value and says what to do.

    The command line prints it as one line on standard error and exits with code 2.
    """


def checked_text(value: Any, name: str) -> str:
    """Check that a value is a text that is not blank. `name` is used in messages."""
    if isinstance(value, str) and not value.strip():
        raise LindaError(f"{name} is empty; give a text with at least one word")
    return checked_unicode(value, name)


def checked_unicode(value: Any, name: str) -> str:
    """Check that a value is a text, possibly blank, without lone surrogates. `name` is used in messages."""
    if not isinstance(value, str):
        raise LindaError(f"{name} is {shortened(value)}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        position = error.start + 1
        raise LindaError(f"{name} contains a lone surrogate at position {position}; give valid Unicode") from error
    return value


def checked_ratio(value: Any, name: str = "alpha") -> float:
    """Check that a value is a number from 0 to 1. `name` is used in messages."""
    try:
        if isinstance(value, bool):
            raise TypeError
        ratio = float(value)
    except (TypeError, ValueError, OverflowError):
        raise LindaError(f"{name} is {shortened(value)}, not a number between 0 and 1") from None
    if not 0 <= ratio <= 1:  # also rejects NaN
        raise LindaError(f"{name} is {ratio:g}; it must lie between 0 (the second text) and 1 (the first)")
    return ratio


def checked_integer(value: Any, name: str, minimum: int, maximum: int) -> int:
    """Check that a value is a whole number from `minimum` to `maximum`. `name` is used in messages."""
    limits = f"from {minimum} to {'2^64 - 1' if maximum == MAX_SEED else f'{maximum:,}'}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise LindaError(f"{name} is {shortened(value)}; it must be a whole number {limits}")
    number = int(value)
    if not minimum <= number <= maximum:
        raise LindaError(f"{name} is {shortened(number)}; it must be a whole number {limits}")
    return number


def checked_number(value: Any, name: str, minimum: float, maximum: float = math.inf) -> float:
    """Check that a value is a finite number from `minimum` to `maximum`. `name` is used in messages."""
    limits = f"of {minimum:g} or more" if maximum == math.inf else f"from {minimum:g} to {maximum:g}"
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise LindaError(f"{name} is {shortened(value)}; it must be a number {limits}")
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not (minimum <= number <= maximum and math.isfinite(number)):
        raise LindaError(f"{name} is {shortened(value)}; it must be a number {limits}")
    return number


def checked_weights(weights: Sequence[Any], count: int, which: str = "") -> tuple[float, ...]:
    """Check the weights of `count` texts and normalize them to sum to 1. `which` names their row in messages."""
    if count < 2:
        raise LindaError(f"got {count} text{'' if count == 1 else 's'} to mix{which}; give two or more")
    if len(weights) != count:
        raise LindaError(f"got {len(weights)} weights for {count} texts{which}; give one weight per text")
    numbers = [checked_number(weight, f"weight {place}{which}", 0) for place, weight in enumerate(weights, start=1)]
    total = math.fsum(numbers)
    if not 0 < total < math.inf:
        raise LindaError(f"the weights{which} sum to {total:g}; give at least one above 0, such as 0.5, 0.3, 0.2")
    # Weights that sum to 1 up to rounding are not changed: 0.3 and 0.7 are exactly the ratio 0.3.
    return tuple(numbers if math.isclose(total, 1.0) else [number / total for number in numbers])


def checked_kind(value: Any, name: str, kinds: type | tuple[type, ...], wanted: str) -> Any:
    """Check the type of a value. `name` and `wanted`, a description of the type, are used in messages."""
    if not isinstance(value, kinds):
        raise LindaError(f"{name} is {shortened(value)}; it must be {wanted}")
    return value


def shortened(value: Any, limit: int = 80) -> str:
    """Format a value for a message, shortened to fit on one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print integers of more than 4,300 digits
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 4 :]}"


def reason(error: BaseException) -> str:
    """Return the message of another library's exception, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 200 else text[:200] + " …"


def os_reason(error: OSError) -> str:
    """Return the reason for an operating system error, in one line."""
    return (error.strerror or reason(error)).lower()
