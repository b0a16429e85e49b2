"""Text analysis: splits text into words; turns words into terms and marks."""

from __future__ import annotations

from vecall.lexical.features import DATED, QUESTION, QueryMarks
from vecall.lexical.terms import (
    ANALYSIS_VERSION,
    content_words,
    memory_terms,
    query_terms,
    terms_of_memories,
)
from vecall.lexical.tokenizer import words

__all__ = [
    "ANALYSIS_VERSION",
    "DATED",
    "QUESTION",
    "QueryMarks",
    "content_words",
    "memory_terms",
    "query_terms",
    "terms_of_memories",
    "words",
]
