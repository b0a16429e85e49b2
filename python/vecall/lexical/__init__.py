"""Text analysis: text to words, words to terms."""

from __future__ import annotations

from vecall.lexical.terms import ANALYSIS_VERSION, memory_terms, query_terms
from vecall.lexical.tokenizer import words

__all__ = ["ANALYSIS_VERSION", "memory_terms", "query_terms", "words"]
