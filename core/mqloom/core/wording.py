"""Numbers in what people read."""


def counted(number: int, noun: str) -> str:
    """Return how many of something there are; the noun takes an s in the plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
