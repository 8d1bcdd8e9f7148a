"""Errors that a user can mend. Everything else is a bug and keeps its traceback."""


class LindaError(ValueError):
    """A wrong value, file or model: the message names what was found and the way out.

    The command line prints it as one line on standard error and exits with code 2.
    """
