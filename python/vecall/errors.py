"""Every error that vecall raises, in one tree.

No message carries user text, vectors, or names of another tenant; each says what was
wrong and what is allowed. After any of them the state is as it was before the call,
except that a `StorageError` leaves the outcome of that call unknown.

    VecallError
    +- InvalidArgumentError (ValueError)
    |  +- InvalidTypeError (TypeError)
    |  +- DimensionError
    |  +- LimitExceededError
    +- EmbeddingMismatchError
    +- ConfigError (ValueError)
    |  +- MemoryNotConfiguredError
    +- NotFoundError (KeyError)
    +- ConflictError
    +- BusyError (TimeoutError)
    +- StorageFullError (OSError)
    +- StorageError (OSError)
    |  +- MissingFileError (FileNotFoundError)
    +- CorruptFileError
    +- IncompatibleFileError
    +- NetworkFilesystemError
    +- EmbedderError
    +- RerankerError
    +- RewriterError
    +- SummaryError
    +- WriteHookError
    +- WriteRejectedError
    +- ReentrantCallError
    +- ReadOnlyError (PermissionError)
    +- ScopeError (PermissionError)
    +- RightsError (PermissionError)
    +- ContextBudgetError
    +- InvalidMemoryError (ValueError)
    +- ClosedError
"""

from __future__ import annotations

from collections import abc
from contextlib import contextmanager
from typing import Literal


class VecallError(Exception):
    """The root of all errors of vecall."""


class InvalidArgumentError(VecallError, ValueError):
    """An argument has a value that is not allowed; the message names both."""


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument has a type that is not allowed."""


class DimensionError(InvalidArgumentError):
    """A vector has another length than the index or the file holds."""


class LimitExceededError(InvalidArgumentError):
    """Text, batch, k or metadata is over its limit; the message names the setting."""


class EmbeddingMismatchError(VecallError):
    """The file was written with another embedding model; the message names both."""


class ConfigError(VecallError, ValueError):
    """A constructor argument or an environment variable cannot be used."""


class MemoryNotConfiguredError(ConfigError):
    """A memory tool was called and no memory service is there."""


class NotFoundError(VecallError, KeyError):
    """No memory has that id for this user."""

    def __str__(self) -> str:
        """Return the message as it is; a KeyError would print it in quotes."""
        return str(self.args[0]) if self.args else ""


class ConflictError(VecallError):
    """The stored state is not the one that the call requires; nothing was changed."""


class BusyError(VecallError, TimeoutError):
    """Another process held the file's lock for too long; nothing was written."""


class StorageFullError(VecallError, OSError):
    """The disk is full; nothing was written, and deleting still works."""


class StorageError(VecallError, OSError):
    """Reading or writing the file failed; reopen it to see what was stored."""


class MissingFileError(StorageError, FileNotFoundError):
    """There is no file of that name."""


class CorruptFileError(VecallError):
    """The file is damaged: a page or a row fails its checks."""


class IncompatibleFileError(VecallError):
    """The file is not vecall's, or a newer version of vecall wrote it."""


class NetworkFilesystemError(VecallError):
    """The file lies on a network file system, which cannot lock it safely."""


class EmbedderError(VecallError):
    """The embedder failed or gave vectors that cannot be used; nothing was written."""


class RerankerError(VecallError):
    """The reranker failed or did not return one finite number for each text."""


class RewriterError(VecallError):
    """The rewriter of queries failed or did not return a text."""


class SummaryError(VecallError):
    """The summarizer failed; nothing was written."""


class WriteHookError(VecallError):
    """The hook that judges writes failed; nothing was written."""


class WriteRejectedError(VecallError):
    """The hook that judges writes refused a memory; nothing was written."""


class ReentrantCallError(VecallError):
    """A plug-in called its own service in a way that would deadlock."""


class ReadOnlyError(VecallError, PermissionError):
    """The memory service or the index was opened to be read only; nothing changed."""


class ScopeError(VecallError, PermissionError):
    """A scope that the memory service was not configured to read or write."""


Right = Literal["trust", "review", "source", "author"]
"""What the rights of a caller may lack."""


class RightsError(VecallError, PermissionError):
    """The rights of the caller do not cover the call; nothing was changed.

    Args:
        message: One sentence.
        right: The missing right: "trust", to every tier or to the one that is claimed,
            "review", or another "source" or "author" than the caller's.
    """

    def __init__(self, message: str, right: Right) -> None:
        """Set the parts."""
        super().__init__(message)
        self.right = right


class ContextBudgetError(VecallError):
    """What must be in the context does not fit into it."""


class InvalidMemoryError(VecallError, ValueError):
    """A recalled memory lacks its scores, or a vector store returned an invalid row."""


class ClosedError(VecallError):
    """The service was closed."""


@contextmanager
def needs_extra(who: str, package: str, extra: str) -> abc.Iterator[None]:
    """Import in the block a package; the ImportError tells how an extra installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        msg = f'{who} needs {package}: pip install "vecall[{extra}]"'
        raise ImportError(msg) from error
    except ImportError as error:
        msg = f'{who} needs a newer {package}: pip install --upgrade "vecall[{extra}]"'
        raise ImportError(msg) from error
