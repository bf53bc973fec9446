"""The one error that users see."""


class IlbrlError(Exception):
    """Bad input or an impossible request.

    The message is one sentence for a person: what was wrong, where (file, field, row) and what to do. The
    command line prints it alone, without a traceback, and exits with status 2.
    """
