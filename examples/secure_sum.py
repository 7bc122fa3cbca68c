"""Add up numbers of several parties without seeing any of them: each party adds masks that cancel in the total.

python examples/secure_sum.py

Each pair of parties agrees on a key and makes the same random numbers from it, which one of them adds to its own and
the other subtracts, modulo 2^64. Who sees the masked numbers of all parties learns their sum and nothing else, as long
as the parties do as they should. examples/federated.py trains a model in this way.

SHAKE-256, SHA-3 and the group of the key exchange are cryptography in use; the protocol around them is a demonstration.
Public keys are not authenticated, so whoever passes them on could replace them by its own (see docs/federated.md).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agbm._base.sums import ExactSum

MODULUS = 2**64
WIDE_BYTES = 288
WIDE_MODULUS = 2 ** (8 * WIDE_BYTES)
"""That of exact sums of doubles, which are integers of up to 2,138 bits."""

PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
"""Group 14 of RFC 3526, for the key exchange of Diffie and Hellman."""
GENERATOR = 2
SECRET_BITS = 512


def new_secret() -> int:
    """The secret of a party."""
    return secrets.randbits(SECRET_BITS)


def public_key(secret: int) -> int:
    """The number that a party shows to the others."""
    return pow(GENERATOR, secret, PRIME)


@dataclass(frozen=True, eq=False)
class Masked:
    """Integers plus masks, which cancel when those of all parties are added."""

    message: int
    """The number of the message; each has masks of its own."""
    n_parties: int
    """The number of parties whose integers are added up here."""
    numbers: NDArray[Any]
    """uint64, or Python's integers modulo WIDE_MODULUS."""
    not_finite: NDArray[np.float64]
    """For exact sums, those of infinite numbers, which cannot be masked; 0 if there are none."""
    form: tuple[Any, ...]
    """What the integers are: "number", "array" with its type and shape, "sum" or "sums"."""

    def __add__(self, other: Masked) -> Masked:
        """The sum of both; while the numbers of a party are missing, it is as random as they are."""
        if (self.message, self.form) != (other.message, other.form):
            raise RuntimeError("Parties answer different messages: their masks would not cancel.")
        numbers = self.numbers + other.numbers
        return Masked(
            self.message, self.n_parties + other.n_parties,
            numbers if numbers.dtype == np.uint64 else numbers % WIDE_MODULUS,
            self.not_finite + other.not_finite, self.form,
        )  # fmt: skip

    def total(self, n_parties: int) -> Any:
        """The sum over all parties, in the type that their numbers had before they were masked."""
        if self.n_parties != n_parties:
            raise RuntimeError(f"{self.n_parties} of {n_parties} parties have answered: their masks do not cancel.")
        kind, *details = self.form
        if kind == "number":
            return int(self.numbers.view(np.int64)[0])
        if kind == "array":
            dtype, shape = details
            return self.numbers.view(np.int64).reshape(shape).astype(dtype)
        half = WIDE_MODULUS // 2
        units = [(int(number) + half) % WIDE_MODULUS - half for number in self.numbers]
        sums = [ExactSum(*of) for of in zip(units, self.not_finite.tolist(), strict=True)]
        return sums if kind == "sums" else sums[0]


class Masks:
    """What one party adds to its integers: random numbers that it has in common with each of the others."""

    def __init__(self, number: int, secret: int, public_keys: Sequence[int]) -> None:
        """number: of this party. public_keys: those of all parties, by their numbers."""
        self.n_parties = len(public_keys)
        self._number = number
        shared = {i: pow(key, secret, PRIME) for i, key in enumerate(public_keys) if i != number}
        self._keys: Mapping[int, bytes] = {
            i: hashlib.sha3_256(common.to_bytes(PRIME.bit_length() // 8, "little")).digest()
            for i, common in shared.items()
        }
        self._n_messages = 0

    def hide(self, value: Any) -> Masked:
        """An integer, an array of whole numbers, an exact sum or a list of these, masked; anything else is refused."""
        self._n_messages += 1
        if isinstance(value, int):
            return self._hidden(np.array([value % MODULUS], dtype=np.uint64), "number")
        if isinstance(value, ExactSum):
            return self._hidden_sums([value], "sum")
        if isinstance(value, list) and all(isinstance(one, ExactSum) for one in value):
            return self._hidden_sums(value, "sums")
        return self._hidden(_whole_numbers(value).view(np.uint64).ravel(), "array", value.dtype, value.shape)

    def _hidden(self, numbers: NDArray[np.uint64], *form: Any) -> Masked:
        mask = np.zeros(len(numbers), dtype=np.uint64)
        for other, key in self._keys.items():
            of_pair = np.frombuffer(self._random_bytes(key, 8 * len(numbers)), dtype="<u8")
            mask = mask + of_pair if self._number < other else mask - of_pair
        return Masked(self._n_messages, 1, numbers + mask, np.zeros(0), form)

    def _hidden_sums(self, sums: Sequence[ExactSum], form: str) -> Masked:
        numbers = np.array([one.units for one in sums], dtype=object)
        for other, key in self._keys.items():
            stream = self._random_bytes(key, WIDE_BYTES * len(sums))
            parts = [stream[i : i + WIDE_BYTES] for i in range(0, len(stream), WIDE_BYTES)]
            of_pair = np.array([int.from_bytes(part, "little") for part in parts], dtype=object)
            numbers = numbers + of_pair if self._number < other else numbers - of_pair
        not_finite = np.array([one.not_finite for one in sums])
        return Masked(self._n_messages, 1, numbers % WIDE_MODULUS, not_finite, (form,))

    def _random_bytes(self, key: bytes, n: int) -> bytes:
        """Bytes that cannot be told from random ones without the key; others for every message."""
        return hashlib.shake_256(key + self._n_messages.to_bytes(8, "little")).digest(n)


def _whole_numbers(value: Any) -> NDArray[np.int64]:
    """An array of whole numbers as integers; ValueError for anything else, which masks cannot hide."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        return np.ascontiguousarray(value, dtype=np.int64)
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    if not is_float or not np.all((value == np.rint(value)) & (np.abs(value) < 2.0**53)):
        raise ValueError(f"Masks hide sums of whole numbers; this {type(value).__name__} would be sent as it is.")
    return np.ascontiguousarray(value).astype(np.int64)


def sum_of(masked: Sequence[Masked]) -> Any:
    """The sum over all parties, from the masked numbers of each."""
    return reduce(add, masked).total(len(masked))


def main() -> None:
    """Count patients of three hospitals by age, without the counts of any of them."""
    counts = [np.array([12, 40, 31]), np.array([3, 0, 55]), np.array([27, 18, 9])]
    own = [new_secret() for _ in counts]
    public = [public_key(secret) for secret in own]
    masked = [Masks(i, secret, public).hide(of) for i, (secret, of) in enumerate(zip(own, counts, strict=True))]
    for i, sent in enumerate(masked):
        print(f"hospital {i + 1} sends", *(f"{number:020d}" for number in sent.numbers))
    print("all hospitals have", *sum_of(masked))


if __name__ == "__main__":
    main()
