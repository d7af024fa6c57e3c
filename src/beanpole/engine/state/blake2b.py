"""BLAKE2b (RFC 7693) with a digest of 16 bytes, for where Python's would take longer than the command that needs it."""

from math import isqrt

import cython
from cython.cimports.libc.stdint import uint8_t, uint64_t

PARAMETERS = cython.declare(uint64_t, 0x01010010)  # a digest of 16 bytes, no key, no tree
ROUNDS = cython.declare(cython.int, 12)

start = cython.declare(uint64_t[8])  # the first 64 bits behind the point of the square roots of the first primes
for number, prime in enumerate((2, 3, 5, 7, 11, 13, 17, 19)):
    start[number] = isqrt(prime << 128) & 0xFFFFFFFFFFFFFFFF

order = cython.declare(uint8_t[160])  # in which a round takes the words of a block; the eleventh is as the first
for number, word in enumerate(
    "0123456789abcdef"
    "ea489fd61c02b753"
    "b8c052fdae367194"
    "7931dcbe265a40f8"
    "905724afe1bc683d"
    "2c6a0b834d75fe19"
    "c51fed4a0763928b"
    "db7ec13950f4862a"
    "6fe9b308c2d714a5"
    "a2847615fb9e3cd0"
):
    order[number] = int(word, 16)


def digest(data, size, found):
    """Set `found` to the digest of `size` bytes, behind which zeros fill the last block of 16 words."""
    state: uint64_t[8]
    i: cython.int
    for i in range(8):
        state[i] = start[i]
    state[0] ^= PARAMETERS
    at: uint64_t = 0
    while True:
        at += 128
        compress(state, data, min(at, size), at >= size)
        if at >= size:
            break
        data += 16
    found[0] = state[0]
    found[1] = state[1]


@cython.cfunc
@cython.exceptval(check=False)
def compress(
    state: cython.pointer(uint64_t), block: cython.pointer(cython.const[uint64_t]), counted: uint64_t, last: cython.bint
) -> cython.void:
    """Mix a block into the state; `counted` bytes are in it and those before."""
    v: uint64_t[16]
    i: cython.int
    for i in range(8):
        v[i] = state[i]
        v[8 + i] = start[i]
    v[12] ^= counted
    if last:
        v[14] = ~v[14]
    for i in range(ROUNDS):
        take: cython.pointer(uint8_t) = cython.address(order[16 * (i % 10)])
        mix(v, 0, 4, 8, 12, block[take[0]], block[take[1]])
        mix(v, 1, 5, 9, 13, block[take[2]], block[take[3]])
        mix(v, 2, 6, 10, 14, block[take[4]], block[take[5]])
        mix(v, 3, 7, 11, 15, block[take[6]], block[take[7]])
        mix(v, 0, 5, 10, 15, block[take[8]], block[take[9]])
        mix(v, 1, 6, 11, 12, block[take[10]], block[take[11]])
        mix(v, 2, 7, 8, 13, block[take[12]], block[take[13]])
        mix(v, 3, 4, 9, 14, block[take[14]], block[take[15]])
    for i in range(8):
        state[i] ^= v[i] ^ v[8 + i]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def mix(
    v: cython.pointer(uint64_t), a: cython.int, b: cython.int, c: cython.int, d: cython.int, x: uint64_t, y: uint64_t
) -> cython.void:
    v[a] += v[b] + x
    v[d] = turned(v[d] ^ v[a], 32)
    v[c] += v[d]
    v[b] = turned(v[b] ^ v[c], 24)
    v[a] += v[b] + y
    v[d] = turned(v[d] ^ v[a], 16)
    v[c] += v[d]
    v[b] = turned(v[b] ^ v[c], 63)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def turned(word: uint64_t, bits: cython.int) -> uint64_t:
    return word >> bits | word << (64 - bits)
