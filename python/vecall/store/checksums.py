"""The texts that checksums are of: one spelling for each value.

A checksum was once of the `repr` of what a caller gave. A number of NumPy's, such as a
TTL, was written as a plain number with a checksum of its NumPy spelling. Rows with such
a checksum are whole; `old_spellings` finds them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations


def canonical(value: object) -> str:
    """Return the text of a value of a row; "" for None.

    Raises:
        TypeError: Neither a string nor a number.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float.__repr__(value)
    return int.__repr__(value)


def old_spellings(
    texts: Sequence[str], values: Sequence[object], places: Sequence[int]
) -> Iterator[list[str]]:
    """Yield the texts of a row as a value of NumPy's at some places had spelled them.

    Args:
        texts: The text of each value.
        values: The values.
        places: Where a caller's value, or one made of it, may be.
    """
    spelled: dict[int, str] = {}
    for at in places:
        value = values[at]
        if type(value) is float:
            spelled[at] = f"np.float64({value!r})"
        elif type(value) is str:
            spelled[at] = f"np.str_({value!r})"
    for count in range(1, len(spelled) + 1):
        for chosen in combinations(spelled, count):
            yield [
                spelled[at] if at in chosen else text for at, text in enumerate(texts)
            ]
