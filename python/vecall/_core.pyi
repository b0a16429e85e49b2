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
    "Engine",
    "Index",
    "LinearMap",
    "Ranking",
    "build_info",
    "testing",
]

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
    def load(path: str | os.PathLike[str]) -> Index:
        """
        Reads an index that `save` wrote.

        Raises:
            IncompatibleFileError: the file is no snapshot of vecall, or of another version.
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
            ids: Integers (n,), or one. The last of equal ids wins.
            vectors: Numbers (n, dim), or (dim,) for one id; finite as float32 and not zero.

        Raises:
            InvalidArgumentError: a value is NaN, Inf or a zero vector; nothing was added.
            InvalidTypeError: no numbers, or another shape.
            DimensionError: vectors of another length.
        """
    def build(self) -> None:
        """
        Links now what the background would link by and by.
        """
    def remove(self, ids: numpy.typing.ArrayLike) -> int:
        """
        Removes vectors by id, integers (n,) or one; unknown ids are ignored.

        Returns:
            How many of them were here.
        """
    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Writes the index to a file, which then is the new one whole or the old one.

        The graph goes with it, and of removed vectors that the graph still passes through, their
        4-bit codes.

        Raises:
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
        matrix: Numbers (n, m), finite as float32, n and m from 1 to 65,536. Rows whose norm is
            below 1e-30 count as zero.

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
    ) -> None: ...
    def __reduce_ex__(self, arg0: typing.Any) -> typing.Any: ...

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
        session: int | None = None,
        author: int | None = None,
        kind: int | None = None,
        after: int | None = None,
        before: int | None = None,
        now: int | None = None,
        only: numpy.typing.NDArray[numpy.int64] | None = None,
        without: numpy.typing.NDArray[numpy.int64] | None = None,
        without_sessions: list[int] = [],
        min_similarity: float | None = None,
        question_mark: int = 0,
        time_mark: int = 0,
        author_marks: list[int] = [],
        favoured_authors: list[int] = [],
        ranking: Ranking | None = None,
        known_model: bool = False,
        candidates: int = 50,
        ef: int = 64,
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
            session: Only rows of the session with this hash; 0 for those without.
            author: Only rows of the author with this hash.
            kind: Only rows of the kind with this hash.
            after: Only rows at or after this time, in microseconds.
            before: Only rows before this time, in microseconds.
            now: Rows that expire at or before this time are not found.
            only: int64 (m,), the ids that may be found; None means all.
            without: int64 (m,), ids that are not found.
            without_sessions: Hashes of sessions whose rows are not found.
            min_similarity: Only rows whose cosine is at least this.
            question_mark: Hash among the words of rows that ask something; 0 for none.
            time_mark: Hash among the words of rows that tell a time, if the query asks for one.
            author_marks: Hashes among the words of rows by the authors that the query names.
            favoured_authors: Hashes of the authors whose rows are favoured.
            ranking: How much each part of a score weighs; None is Ranking().
            known_model: Whether the vectors count in full. Otherwise they count as far as they
                agree with the words, so that a model that knows nothing does no harm.
            candidates: How many rows each side proposes, before their neighbours join.
            ef: Breadth of a search of the graph; scans do not use it.

        Returns:
            ids int64, scores float32, cosines float32 (NaN without a vector), BM25 float32,
            parts float32 (n, 6) and a summary float64 (5,), best first. Rows that tie with the
            k-th in score and time follow it. The parts are the share of the query that the row
            covers, then words, vectors, beside, session and factor, of which score = (words +
            vectors + beside + session) * factor. The summary is the best row's share of the
            query, the trust in the vectors, mean and deviation of all cosines, and the number
            of rows that passed the filter.
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

__version__: str
