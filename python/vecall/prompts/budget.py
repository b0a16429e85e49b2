"""Selects the recalled memories that fit a token budget; drops the least useful first.

vecall never calls this by itself. Code that builds a prompt calls it, or `render` with
`max_tokens`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from vecall.errors import ContextBudgetError, InvalidArgumentError, InvalidTypeError
from vecall.prompts.scored import ScoredMemory, scores_of
from vecall.types import MemoryEntry

M = TypeVar("M", bound=MemoryEntry | ScoredMemory)
Mandatory = Callable[[M], bool] | Collection[M]


def fit_budget(
    memories: Iterable[M],
    max_tokens: int,
    count_tokens: Callable[[str], int] | None = None,
    *,
    mandatory: Mandatory[M] = (),
    used_tokens: int = 0,
    render: Callable[[M], str] | None = None,
) -> list[M]:
    """Return the memories that fit a token budget, in their order.

    The value of a memory is `confidence * importance`. Ties compare by confidence, then
    by importance, then by position: the later memory is dropped. Memories of the lowest
    value are dropped until the rest fits. A memory that does not fit alone is dropped
    before all others.

    Tokens are counted per memory and added. The joined text may have a few tokens more
    or less.

        fit = fit_budget(found.memories, 800, render=lambda m: render([m], "bullets"))

    Args:
        memories: Recalled memories with both scores.
        max_tokens: The budget in tokens, at least 0; includes `used_tokens`.
        count_tokens: Your model's tokenizer: a function from a text to its number of
            tokens. Default: `estimate_tokens`.
        mandatory: Memories that must stay: some of `memories` (the same objects, or by
            id), or a predicate.
        used_tokens: Tokens already used, for example by a frame; at least 0.
        render: Returns a memory's text as shown. Default: its text.

    Raises:
        ContextBudgetError: The used tokens and the mandatory memories do not fit.
        InvalidMemoryError: A memory lacks a score.
        InvalidArgumentError: An invalid budget or count, or a mandatory memory is not
            among `memories`.
        InvalidTypeError: An argument of another type.

    Warns:
        UserWarning: Memories are dropped, but the scores cannot rank them: all
            confidences are 1.0, or all scores are equal.
    """
    allowed = whole_tokens(max_tokens, "max_tokens")
    total = whole_tokens(used_tokens, "used_tokens")
    given = as_memories(memories)
    scores = [scores_of(memory) for memory in given]
    count = counter(count_tokens)
    costs = [
        whole_tokens(
            count(memory.text if render is None else render(memory)), "count_tokens"
        )
        for memory in given
    ]
    must = _mandatory_places(given, mandatory)
    total += sum(costs[place] for place in must)
    if total > allowed:
        msg = f"the mandatory part needs {total} tokens; max_tokens = {allowed}"
        raise ContextBudgetError(msg)
    optional = [place for place in range(len(given)) if place not in must]
    if total + sum(costs[place] for place in optional) <= allowed:
        return given
    _warn_if_alike([scores[place] for place in optional])
    chosen = set(must)
    room = allowed - total
    fitting = [place for place in optional if costs[place] <= room]
    # sorted() is stable: of equal memories, the first one stays longest.
    for place in sorted(fitting, key=lambda at: _worth(scores[at]), reverse=True):
        if costs[place] > room:
            break
        room -= costs[place]
        chosen.add(place)
    return [memory for place, memory in enumerate(given) if place in chosen]


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, without a tokenizer.

    A token is four ASCII characters, two other letters of Latin, Greek, Cyrillic,
    Hebrew or Arabic, or one character of another script. An emoji is two tokens.
    Digits, identifiers and punctuation take more in practice: for exact budgets pass
    your model's tokenizer.
    """
    if text.isascii():
        return (len(text) + 3) // 4
    length = len(text)
    ascii_ = len(text.encode("ascii", "ignore"))
    # UTF-16 has two units for astral characters; UTF-8 lengths separate the others.
    astral = len(text.encode("utf-16-le", "surrogatepass")) // 2 - length
    utf8 = len(text.encode("utf-8", "surrogatepass"))
    alphabetic = 3 * length - 2 * ascii_ + astral - utf8
    other = length - ascii_ - alphabetic - astral
    return (ascii_ + 2 * alphabetic + 4 * other + 8 * astral + 3) // 4


def counter(count_tokens: Callable[[str], int] | None) -> Callable[[str], int]:
    """Return the function that counts tokens.

    Raises:
        InvalidTypeError: Not a function.
    """
    given: object = estimate_tokens if count_tokens is None else count_tokens
    if not callable(given):
        msg = "count_tokens: expected a function from a text to its tokens"
        raise InvalidTypeError(msg)
    return given


def as_memories(memories: Iterable[M]) -> list[M]:
    """Return memories as a list.

    Raises:
        InvalidTypeError: Not an iterable of memories.
    """
    given: object = memories
    if isinstance(given, Iterable) and not isinstance(given, str):
        listed = list(memories)
        if all(isinstance(item, MemoryEntry | ScoredMemory) for item in listed):
            return listed
    msg = (
        "memories: expected a list of MemoryEntry or ScoredMemory, "
        "such as the .memories of an answer"
    )
    raise InvalidTypeError(msg)


def _worth(scores: tuple[float, float]) -> tuple[float, float, float]:
    """Return a sort key; greater if one score is greater and the other not less."""
    confidence, importance = scores
    return confidence * importance, confidence, importance


def _mandatory_places(given: list[M], mandatory: Mandatory[M]) -> set[int]:
    if callable(mandatory):
        return {place for place, memory in enumerate(given) if mandatory(memory)}
    wanted = as_memories(mandatory)
    objects = {id(memory): place for place, memory in enumerate(given)}
    named = {memory.id: place for place, memory in enumerate(given) if memory.id}
    places = set()
    for memory in wanted:
        place = objects.get(id(memory), named.get(memory.id or ""))
        if place is None:
            msg = "mandatory: a memory is not among memories"
            raise InvalidArgumentError(msg)
        places.add(place)
    return places


def _warn_if_alike(scores: list[tuple[float, float]]) -> None:
    if len(scores) < 2:
        return
    if len(set(scores)) == 1:
        reason = "all memories have the same confidence and importance"
    elif all(confidence == 1.0 for confidence, _ in scores):
        reason = "all confidences are 1.0"
    else:
        return
    warnings.warn(
        f"fit_budget: {reason}, so the scores cannot rank what to drop",
        UserWarning,
        stacklevel=3,
    )


def whole_tokens(value: object, name: str) -> int:
    """Return `value` if it is a number of tokens.

    Raises:
        InvalidTypeError: Not a whole number.
        InvalidArgumentError: Below 0.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        msg = f"{name}: expected a whole number of tokens"
        raise InvalidTypeError(msg)
    if number < 0:
        msg = f"{name}: must be at least 0"
        raise InvalidArgumentError(msg)
    return number
