"""Tokens: how they are made, kept, found again and taken back."""

from __future__ import annotations

import base64
import hashlib
import json
import os

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.processes import child, said, tell
from vecall import ConfigError, InvalidArgumentError, StorageError
from vecall.server import HttpLimits, TokenFile, Tokens, mint
from vecall.server.limits import RateLimiter
from vecall.server.tokens import Token

MAKER = """
import sys
from vecall.server import TokenFile, mint
print("ready", flush=True)
sys.stdin.readline()
for _ in range(100):
    token = mint(app="hotel")[1]
    TokenFile(sys.argv[1]).change(lambda tokens: [*tokens, token])
print("done", flush=True)
"""


def test_a_token_holds_32_random_bytes_and_only_its_hash_is_kept(tmp_path):
    """SHA-256 in a file that nobody else may read."""
    path = tmp_path / "tokens"
    file = TokenFile(path)
    bearers = []
    for _ in range(3):
        bearer, token = mint(app="hotel", user="alice")
        file.change(lambda tokens, token=token: [*tokens, token])
        bearers.append(bearer)
        name, id_, secret = bearer.split("_", 2)
        assert (name, id_) == ("vecall", token.id)
        assert len(base64.urlsafe_b64decode(secret + "=")) == 32
        assert token.sha256 == hashlib.sha256(bearer.encode()).hexdigest()
        assert token.sha256 not in repr(token)
    assert len(set(bearers)) == 3
    text = path.read_text()
    for bearer in bearers:
        assert bearer.split("_", 2)[2] not in text
        assert TokenFile(path).find(bearer).user == "alice"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_kept_comes_back_as_it_was(tmp_path):
    """All fields of all kinds."""
    tokens = [
        mint(app="a", user="u", read_only=True, expires_at=4e9)[1],
        mint(app="a")[1],
        mint(admin=True)[1],
        mint(app="a", review=True, trust="unknown", source="s", author="o")[1],
    ]
    file = TokenFile(tmp_path / "tokens")
    file.change(lambda _: tokens)
    assert file.read() == tokens


def test_a_token_is_made_or_taken_back_while_the_server_runs(tmp_path):
    """The next request knows."""
    file = TokenFile(tmp_path / "tokens")
    writer = TokenFile(tmp_path / "tokens")
    bearer, token = mint(app="hotel")
    assert file.find(bearer) is None
    writer.change(lambda tokens: [*tokens, token])
    assert file.find(bearer) == token
    writer.change(lambda _: [])
    assert file.find(bearer) is None
    writer.change(lambda _: [token])
    assert file.find(bearer) == token
    (tmp_path / "tokens").unlink()
    assert file.find(bearer) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"tokens": {}',
        '{"tokens": [5]}',
        '{"tokens": [{"id": "x", "sha256": "y", "app": "a"}]}',
        '{"tokens": [{"id": "0000000000000000", "app": "a"}]}',
        b"\xff",
        "[" * 100_000,
    ],
)
def test_a_file_that_is_damaged_opens_to_nobody(tmp_path, text):
    """It fails closed, and says so without saying what is in it."""
    path = tmp_path / "tokens"
    file = TokenFile(path)
    bearer, token = mint(app="hotel")
    file.change(lambda _: [token])
    assert file.find(bearer) == token
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert file.find(bearer) is None
    with pytest.raises(ConfigError):
        file.read()


@pytest.mark.parametrize(
    "change",
    [
        {"read_only": "no"},
        {"admin": 0},
        {"expires_at": "never"},
        {"expires_at": True},
        {"expires_at": float("nan")},
        {"app": ""},
        {"app": 5},
        {"user": "a\0"},
        {"sha256": "0" * 63},
        {"id": "0" * 15},
        {"more": 1},
    ],
)
def test_a_field_of_another_type_is_no_token(tmp_path, change):
    """So that "read_only": "no" never means that it may write."""
    path = tmp_path / "tokens"
    token = {"id": "0" * 16, "sha256": "0" * 64, "app": "hotel", **change}
    path.write_text(json.dumps({"tokens": [token]}))
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        TokenFile(path).read()


def test_a_file_that_is_closed_to_others_again_is_used_again(tmp_path):
    """As the message about it asks for."""
    path = tmp_path / "tokens"
    file = TokenFile(path)
    bearer, token = mint(app="hotel")
    file.change(lambda _: [token])
    path.chmod(0o644)
    assert file.find(bearer) is None
    path.chmod(0o600)
    assert file.find(bearer) == token


def test_what_is_no_file_opens_to_nobody(tmp_path):
    """Nor do the tokens that were there before."""
    path = tmp_path / "tokens"
    file = TokenFile(path)
    bearer, token = mint(app="hotel")
    file.change(lambda _: [token])
    assert file.find(bearer) == token
    path.unlink()
    path.mkdir()
    assert file.find(bearer) is None
    path.rmdir()
    os.mkfifo(path, 0o600)
    assert file.find(bearer) is None


def test_an_expiry_of_hundreds_of_digits_is_a_far_one(tmp_path):
    """It is a number, if one that no float holds."""
    path = tmp_path / "tokens"
    bearer, token = mint(app="hotel")
    TokenFile(path).change(lambda _: [token])
    told = json.loads(path.read_text())
    told["tokens"][0]["expires_at"] = 10**400
    path.write_text(json.dumps(told))
    assert TokenFile(path).find(bearer) is not None


def test_a_file_that_others_may_read_is_not_used(tmp_path):
    """Nor a symbolic link."""
    path = tmp_path / "tokens"
    bearer, token = mint(app="hotel")
    TokenFile(path).change(lambda _: [token])
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        TokenFile(path).read()
    assert TokenFile(path).find(bearer) is None
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(StorageError):
        TokenFile(link).read()
    assert TokenFile(link).find(bearer) is None


def test_no_token_is_lost_when_many_are_made_at_once(tmp_path):
    """Commands change the file one after another; this is about its lock."""
    path = tmp_path / "tokens"
    with child(MAKER, path) as other:
        assert said(other) == "ready"
        tell(other, "go")
        for _ in range(100):
            token = mint(app="hotel")[1]
            TokenFile(path).change(lambda tokens, token=token: [*tokens, token])
        assert said(other) == "done"
    assert len(TokenFile(path).read()) == 200


@pytest.mark.parametrize(
    "bound",
    [
        {},
        {"user": "alice"},
        {"admin": True, "app": "hotel"},
        {"admin": True, "user": "alice"},
        {"app": ""},
        {"app": "x" * 513},
    ],
)
def test_a_token_is_bound_to_an_app_or_an_admins(bound):
    """Never to everything."""
    with pytest.raises(ConfigError):
        mint(**bound)


def test_one_token_never_stands_for_another():
    """Each finds itself alone, and no token has two ids."""
    made = [mint(app="hotel", user=str(number)) for number in range(50)]
    tokens = Tokens(token for _, token in made)
    for bearer, token in made:
        assert tokens.find(bearer) is token
    (first, _), (second, _) = made[:2]
    mixed = first[:23] + second[23:]
    assert mixed != first
    assert tokens.find(mixed) is None
    assert tokens.find("") is None
    assert isinstance(made[0][1], Token)


def test_requests_are_let_through_at_the_rate_of_each_token():
    """As many as a bucket holds, then none; other tokens and kinds have their own."""
    rates = RateLimiter(HttpLimits(writes_per_second=3, reads_per_second=5))
    assert [rates.seconds_to_wait("a", "write") for _ in range(3)] == [0.0] * 3
    wait = rates.seconds_to_wait("a", "write")
    assert 0.0 < wait <= 1 / 3
    assert [rates.seconds_to_wait("a", "read") for _ in range(5)] == [0.0] * 5
    assert rates.seconds_to_wait("b", "write") == 0.0


@pytest.mark.parametrize(
    "limits",
    [
        {"max_body_bytes": 0},
        {"max_batch": 1.5},
        {"request_seconds": 0},
        {"body_seconds": float("nan")},
        {"header_seconds": float("inf")},
        {"max_connections": True},
        {"reads_per_second": "9"},
    ],
)
def test_a_limit_that_cannot_be_is_refused(limits):
    """Names the setting."""
    with pytest.raises(ConfigError, match=next(iter(limits))):
        HttpLimits(**limits)
    assert issubclass(ConfigError, ValueError)
    assert not issubclass(ConfigError, InvalidArgumentError)


@pytest.mark.parametrize("suffix", ["", ".new", ".lock"])
def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(tmp_path, suffix):
    """Reading and changing end at once, with an error or with a file in its place."""
    path = tmp_path / "tokens"
    os.mkfifo(f"{path}{suffix}")
    child_code = (
        "import sys; from vecall.server import TokenFile, mint\n"
        "try: TokenFile(sys.argv[1]).change(lambda _: [mint(app='a')[1]])\n"
        "except Exception as error: print(type(error).__name__, flush=True)\n"
        "else: print('changed', flush=True)"
    )
    with child(child_code, path) as process:
        outcome = said(process)
    assert outcome == ("changed" if suffix == ".new" else "ConfigError")
    if suffix == ".new":
        assert len(TokenFile(path).read()) == 1


def test_a_file_that_others_may_replace_opens_to_nobody(tmp_path, monkeypatch):
    """One of another user, and one in a folder that everybody may write."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = TokenFile(folder / "tokens")
    bearer, token = mint(app="a")
    file.change(lambda _: [token])
    folder.chmod(0o777)
    with pytest.raises(ConfigError):
        file.read()
    assert TokenFile(folder / "tokens").find(bearer) is None
    folder.chmod(0o1777)
    assert file.read() == [token]
    owner = (folder / "tokens").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner:
        with pytest.raises(ConfigError):
            file.read()
