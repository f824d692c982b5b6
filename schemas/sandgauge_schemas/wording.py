"""What people get to read, the same in every package."""


def printable(text: str) -> str:
    r"""Return the text with an escape, such as `\x1b` or `\u202e`, for each character that is not itself to be seen.

    Such characters steer a terminal, break a line, turn the direction of writing round, hide, or cannot be written.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def number_of(count: int, noun: str) -> str:
    """Return the count and the noun, which ends as the count wants it: `1 sandbox`, `10,000 sandboxes`."""
    ending = "" if count == 1 else "es" if noun.endswith("x") else "s"
    return f"{count:,} {noun}{ending}"
