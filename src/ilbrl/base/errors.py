"""The one error that users see, and text from files as a terminal may show it."""


class IlbrlError(Exception):
    """Bad input or an impossible request.

    The message is one sentence for a person: what was wrong, where (file, field, row) and what to do. The
    command line prints it alone, without a traceback, and exits with status 2. What a file says in it is `printable`.
    """

    def __str__(self) -> str:
        return "\n".join(map(printable, super().__str__().split("\n")))


def printable(text: str) -> str:
    """Text with escapes for whatever would move the cursor, colour the terminal or turn the direction of writing."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
