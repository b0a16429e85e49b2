"""Functions over a whole text, from anybody and of any length: each takes linear time.

`normalise`, `with_tones`, `to_nfc` and `to_nfkc` normalise; `strip_invisible` removes
invisible characters, `without_blocks` all between two tags. `escape_tags` escapes
tags, and `indent_memory_text` and `safe_label` keep a value inside its record: in a
rendered block only vecall writes "<" and lines that start at the left edge.

Only this module calls `unicodedata.normalize` with a text: the time of that grows with
the square of the marks in a row (tests/lexical/test_linear_time.py).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any, Literal, cast

from vecall.system import cached


class _LazyPattern:
    def __init__(self, text: str, flags: int) -> None:
        self._source = text, flags
        self.pattern = text

    @cached
    def compiled(self) -> re.Pattern[str]:
        return re.compile(*self._source)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.compiled, name)
        setattr(self, name, value)  # the next use finds it here
        return value


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use: a short process uses few."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))


# Combining marks inside words. `\\w` excludes them, which would split Hindi and Arabic
# words. The punctuation of the same blocks is excluded here.
MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0971-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece"
    "\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
"""The inside of a class of a regular expression. A few letters are among them."""

# All others, also U+FF9E and U+FF9F, which become marks, and some blocks in which later
# versions of Unicode have more.
RARE_MARKS = (
    "\u05bf-\u05c7\u06d6-\u06ed\u0711\u0730-\u074a\u07eb-\u07fd\u0816-\u082d\u0859-\u085b\u0890-\u08ff"
    "\u302a-\u302f\u3099\u309a\ua66f-\uabed\ufb1e\ufe20-\ufe2f\uff9e\uff9f"
    "\u0f18-\u0fc6\u108d\u135d-\u135f\u1712-\u1734\u17dd\u18a9\u1939-\u193b\u1a17-\u1a7f\u1ab0-\u1aff"
    "\u1b34-\u1bf3\u1c37\u1cd0-\u1cf9\u1dc0-\u1dff\u20d0-\u20ff\u2cef-\u2cf1"
    "\u2d7f-\u2dff"
    "\U000101fd-\U00011d97\U00016100-\U00016139\U00016af0-\U00016ff1\U0001bc9e"
    "\U0001d165-\U0001d244\U0001e000-\U0001e94a"
)
_MOST_MARKS = 30
_MANY_MARKS = lazy_pattern(rf"[{MARKS}{RARE_MARKS}]{{{_MOST_MARKS + 1},}}")
_Form = Literal["NFC", "NFD", "NFKC"]
_PART = 16_384  # characters that are normalised at once
# Letters that combine with none before them. Runs without one of these become little
# longer when they are normalised.
_BEGINS_A_PART = lazy_pattern(
    "[\x00-\x7f\xc0-\u024f\u0370-\u0482\u0621-\u064a\u1e00-\u1fff\u3041-\u3096"
    "\u30a1-\u30fa\u3300-\u9fff\uac00-\ud7a3\ufb50-\ufdff]"
)
_LATIN_ACCENT = lazy_pattern("([a-z])[\u0300-\u036f]+")

# Terminal escapes: OSC and its like up to their end, CSI, then the two-character ones.
# None contains the begin of another, or many begins would look for the same end.
_ANSI = lazy_pattern(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n\x9d\x90\x98\x9e\x9f]{0,256}"
    r"(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[ -/]{0,4}[0-~]"
)
_LINE_ENDS = lazy_pattern("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SURROGATES = lazy_pattern("[\ud800-\udfff]")

# Invisible: controls except tab and newline, direction marks, zero-width characters,
# blank letters, variation selectors except the two of emoji, tags, noncharacters.
_UNSEEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(
        chr(0x10000 * plane + last)
        for plane in range(1, 17)
        for last in (0xFFFE, 0xFFFF)
    )
)
_HIDDEN = lazy_pattern(f"[{_UNSEEN}]+")
# Joiners spell words in Persian and Indic scripts and glue emoji; selectors choose the
# colours of a symbol. Elsewhere, and in a row, they only hide.
_JOINER = lazy_pattern(
    "(?<![\u0600-\u1cff\u2190-\u2bff\ufb50-\ufeff\ufe0f\U0001f000-\U0001faff])"
    "[\u200c\u200d]"
    "|[\u200c\u200d](?![\u0600-\u1cff\u2190-\u2bff\ufb50-\ufeff\U0001f000-\U0001faff])"
)
_SELECTOR = lazy_pattern(
    "(?<![#*0-9\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
_PLAIN = lazy_pattern("[\t\n -~]*")
_WITHOUT_TAGS = lazy_pattern(r"[\t\n -%'-;=-Z\\^-~]*")
_CONTINUED = lazy_pattern(r"\n(?=[^\n])")
_MANY_LINES = lazy_pattern(r"\n(?:[ \t]*\n){2,}")

# "<" in its own form, in those that NFKC or NFD make "<" of, and look-alikes where they
# make a tag.
_LESS = lazy_pattern(
    "[<\uff1c\ufe64\u226e]"
    "|[\u2039\u00ab\u02c2\u1438\u226a\u227a\u22d6\u2329\u276c\u276e\u2770\u27e8"
    "\u27ea\u29fc\u3008\u300a\ufe3d\ufe3f]"
    "(?=\\s{0,8}[/\\\\\u2044\u2215\u29f8\uff0f]"
    "|\\s{0,8}(?i:past[\\s_-]{0,8}conv|recalled[_-]|memory[_-]))"
)
_MORE = lazy_pattern("(?<=]])>")  # in XML "]]>" may stand in no text
_AMPERSAND = lazy_pattern(
    "[&\uff06\ufe60](?=[#\uff03\ufe5f]|\\w{2,32}[;\uff1b\ufe54]|(?i:lt|gt|amp|quot))"
)
# Words by which chat templates switch the speaker; those in "<" are cut by that. Beside
# the known ones: "[|" of EXAONE and Jais, "]~" and "[e~[" of MiniMax, and all words in
# capitals, as Mistral writes its control tokens.
_SQUARE = lazy_pattern(
    r"[\[\uff3b](?=\s{0,8}[|\uff5c\u2502\u01c0]|e~"
    r"|\s{0,8}/?\s{0,8}[A-Z][A-Z0-9_]{1,40}\s{0,8}[]\uff3d]"
    r"|(?i:\s{0,8}/?\s{0,8}(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|TOOL_CALLS?|TOOL_RESULTS?"
    r"|CONTROL_|AVAILABLE_TOOLS|TOOL_CONTENT|ARGS|CALL_ID|BOS|EOS|CLS|SEP|MASK|PAD|UNK"
    r"|IMG|PREFIX|SUFFIX|MIDDLE|THINK|GMASK|SMASK|MODEL_SETTINGS|AUDIO|BEGIN_AUDIO"
    r"|TRANSCRIBE)\w{0,32}\s{0,8}[]\uff3d]))"
    r"|[]\uff3d](?=~)"
)
# Marks of speakers and tools that no prose or program has: what google-adk's own tools
# show is escaped only where one of these is.
_LESS_FORMS = "[<\uff1c\ufe64\u226e]"
_MARKS = lazy_pattern(
    rf"{_LESS_FORMS}\s{{0,8}}[|\uff5c\u2502\u01c0]"
    rf"|{_LESS_FORMS}{{1,2}}\s{{0,8}}/?\s{{0,8}}(?i:tool|tools|tool_calls?|tool_responses?"
    r"|tool_results?|tool_outputs?|tool_use|function_calls?|function_results?|system"
    r"|user|assistant|human|sys|start_of_turn|end_of_turn|start_of_image|think"
    r"|thinking|begin_of_text|end_of_text|bos|eos|pad|unk|s|\w{0,32}_conversations)"
    r"\s{0,8}[>\uff1e\ufe65\u226f]"
    r"|[\[\uff3b]\s{0,8}(?:[|\uff5c\u2502\u01c0]|/?\s{0,8}(?i:INST|SYS|SYSTEM_PROMPT"
    r"|TOOL_CALLS?|TOOL_RESULTS?|TOOL_CONTENT|AVAILABLE_TOOLS|MODEL_SETTINGS|GMASK"
    r"|SMASK|BEGIN_AUDIO|TRANSCRIBE|CONTROL_\w{0,32})\s{0,8}[]\uff3d]|e~\[)"
    r"|[]\uff3d]~!?b"
)
_LONGEST_MARK = 200  # more than any match of the expression
_JSON_UNSAFE = lazy_pattern(
    f"[<>&\u2028\u2029\u226e\uff06\uff1c\uff1e\ufe60\ufe64\ufe65{_UNSEEN}]"
)
# google-adk prints memories between tags of this name and escapes nothing.
_TAG = "pastconversations"
_BETWEEN_LETTERS = lazy_pattern(r"[\W_]+")
# Matches every spelling of the tag in case-folded text, and few other texts. It takes a
# twentieth of the time of removing all characters between letters. U+0345 is no letter,
# but folds to iota.
_MAY_SPELL = lazy_pattern("[\\W_\u03b9]*".join(_TAG))
_SPACES = lazy_pattern(r"\s+")
_SENTENCE_END = lazy_pattern(
    r"(?<=[.!?\u2026\u3002\uff01\uff1f\u061f])\s+|\n+|(?<=[\u3002\uff01\uff1f])"
)
_SENTENCE_LENGTH = 12  # characters; shorter ones say little
_SPEAKS = lazy_pattern("[:\uff1a\ufe55\ufe13]+(?=\\s|$)")


def normalise(text: str) -> str:
    """Return `text` in the normal form in which words are compared."""
    if text.isascii():
        return text.lower()
    folded = to_nfkc(text).casefold()
    if folded.isascii():
        return folded
    folded = _to_normal_form("NFD", folded)
    folded = _LATIN_ACCENT.sub(r"\1", folded).replace("\u0131", "i")  # as I becomes i
    return _to_normal_form("NFC", folded)


def with_tones(text: str) -> str:
    """Return `text` normalised, with the accents of Latin letters."""
    return _to_normal_form("NFC", to_nfkc(text).casefold())


def to_nfc(text: str) -> str:
    """Return a text in the normal form NFC, without marks after 30 in a row."""
    return text if text.isascii() else _to_normal_form("NFC", few_marks(text))


def to_nfkc(text: str) -> str:
    """Return a text in the normal form NFKC, without marks after 30 in a row."""
    return text if text.isascii() else _to_normal_form("NFKC", few_marks(text))


def strip_combining_marks(word: str) -> str:
    """Return a word without combining marks, also those of its letters."""
    split = _to_normal_form("NFD", few_marks(word))
    return "".join(char for char in split if not unicodedata.combining(char))


def _to_normal_form(form: _Form, text: str) -> str:
    """Normalise a text with few marks in a row; a long one in parts."""
    # One call keeps the interpreter, and a character may become 18. The parts are cut
    # where no character combines with the one before: the result is that of one call.
    if len(text) <= _PART:
        return unicodedata.normalize(form, text)
    parts = []
    begin = 0
    while begin < len(text):
        found = _BEGINS_A_PART.search(text, begin + _PART)
        end = found.start() if found else len(text)
        parts.append(unicodedata.normalize(form, text[begin:end]))
        begin = end
    return "".join(parts)


def few_marks(text: str) -> str:
    """Limit runs of combining marks to 30, so that normalisation takes linear time."""
    # No language uses more than 30 combining marks in a row (UAX #15, stream-safe text
    # format). The time to normalise a run is quadratic in its length. At most 30
    # characters in a row are left as they are; they become at most 60 marks.
    return text if text.isascii() else _MANY_MARKS.sub(_limit_marks_of_run, text)


def _limit_marks_of_run(run: re.Match[str]) -> str:
    """Drop marks after 30 in a row. The run may contain letters of some scripts."""
    chars = []
    marks = 0
    for char in run.group():
        more = _count_marks_of_char(char)
        marks = marks + more if more else 0
        if marks <= _MOST_MARKS:
            chars.append(char)
    return "".join(chars)


@lru_cache(maxsize=4_096)
def _count_marks_of_char(char: str) -> int:
    """Return how many marks a character becomes; 0 for one that becomes a letter."""
    split = unicodedata.normalize("NFKD", char)
    return len(split) if unicodedata.combining(split[0]) else 0


def without_blocks(text: str, opening: str, closing: str) -> str:
    """Return a text without what stands from each opening to the next closing."""
    # An opening without a closing stays. The time is linear, which that of a regular
    # expression is not: it looks for a closing from every opening.
    pieces = []
    done = 0
    last = text.rfind(closing)
    while (at := text.find(opening, done)) >= 0 and at + len(opening) <= last:
        pieces.append(text[done:at])
        done = text.index(closing, at + len(opening)) + len(closing)
    return "".join([*pieces, text[done:]])


def strip_invisible(text: str) -> str:
    """Return the text without invisible characters."""
    # Every kind of line end becomes a newline. Terminal escapes, control characters,
    # direction marks, zero-width and tag characters are removed. A lone surrogate
    # becomes U+FFFD. Joiners and emoji selectors stay where they have a meaning.
    if _PLAIN.fullmatch(text):
        return text
    text = _ANSI.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _SURROGATES.sub("\ufffd", text)
    text = _HIDDEN.sub("", text)
    return _JOINER.sub("", _SELECTOR.sub("", text))


def escape_tags(text: str) -> str:
    """Return cleaned text in which nothing can open or close a tag."""
    # As in XML, "<" becomes "&lt;", and "&" becomes "&amp;" if it could start an
    # entity. The brackets of chat templates become "&#91;" and "&#93;".
    if _WITHOUT_TAGS.fullmatch(text):
        return text
    text = _AMPERSAND.sub("&amp;", text)
    text = _MORE.sub("&gt;", _LESS.sub("&lt;", text))
    return _SQUARE.sub(lambda it: "&#91;" if it[0] in "[\uff3b" else "&#93;", text)


def has_template_marks(text: str) -> bool:
    """Whether cleaned text has a mark of a chat template."""
    if len(text) <= _PART:
        return _MARKS.search(text) is not None
    # One search keeps the interpreter.
    return any(
        _MARKS.search(text, begin, begin + _PART + _LONGEST_MARK)
        for begin in range(0, len(text), _PART)
    )


def neutralise_for_adk(text: str) -> str:
    """Return a text that cannot close the block in which google-adk shows memories."""
    # Removes invisible characters. If the text has a mark of a chat template, or any
    # spelling of the block's tag, the result also has no "<", no lookalike of "<", and
    # no bracket of such a mark.
    shown = text if text.isascii() and text.isprintable() else strip_invisible(text)
    if has_template_marks(shown):
        return escape_tags(shown)
    letters = to_nfkc(shown)
    if not _MAY_SPELL.search(letters.casefold()):
        return shown
    letters = _BETWEEN_LETTERS.sub("", letters).casefold()
    return escape_tags(shown) if _TAG in letters else shown


def escape_json(dumped: str) -> str:
    """Return a JSON text with every unsafe or invisible character as a JSON escape."""
    # A parser restores the original strings.
    for pattern in (_JSON_UNSAFE, _JOINER, _SELECTOR, _SQUARE):
        dumped = pattern.sub(lambda found: _utf16_escapes(found[0]), dumped)
    return dumped


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, but for very short ones."""
    return [s for s in _SENTENCE_END.split(text) if len(s) >= _SENTENCE_LENGTH]


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates, which cannot be encoded."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def indent_memory_text(text: str, masked: str = "") -> str:
    """Return a memory's text, every line but the first indented; hide the secret."""
    shown = hide_secret(escape_tags(strip_invisible(text)).strip(), masked)
    shown = _MANY_LINES.sub("\n\n", shown)
    return _CONTINUED.sub("\n  ", shown) or "(no text)"


def safe_label(value: str, masked: str = "", limit: int = 80) -> str:
    """Return a name on one line, cut to `limit` characters, safe inside quotes."""
    shown = _SPACES.sub(" ", strip_invisible(value)).strip()
    if len(shown) > limit:
        shown = shown[:limit] + "\N{HORIZONTAL ELLIPSIS}"
    return hide_secret(escape_tags(shown), masked).replace('"', "&quot;")


def speaker_label(author: str | None) -> str:
    """Return the author as shown, without colons that could end the name early."""
    return _SPEAKS.sub("", safe_label(author or "")).strip(" [:") or "memory"


def hide_secret(text: str, masked: str) -> str:
    """Return the text with stars for every occurrence of a secret, in any case."""
    if not masked or masked.lower() not in text.lower():
        return text
    return re.sub(re.escape(masked), "*" * len(masked), text, flags=re.IGNORECASE)


@lru_cache(maxsize=4_096)  # a hostile text repeats few distinct characters
def _utf16_escapes(text: str) -> str:
    units = text.encode("utf-16-be")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{pair.hex()}" for pair in pairs)
