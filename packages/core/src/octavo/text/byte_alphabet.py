"""The alphabet in which byte-level BPE writes bytes as printable characters (GPT-2, Radford et al. 2019).

Bytes that print as one character of Latin-1 stand for themselves; the other 68 are moved to U+0100 and up, in order.
"""

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_MOVED = [byte for byte in range(256) if byte not in _PRINTABLE]

BYTE_OF_CHARACTER: dict[int, int] = {byte: byte for byte in _PRINTABLE} | {0x100 + i: byte for i, byte in enumerate(_MOVED)}
"""Code point in the alphabet -> byte."""


def alphabet_to_bytes(token: str) -> bytes | None:
    """The bytes that a token stands for, or None where it has a character that is not of the alphabet."""
    try:
        return bytes([BYTE_OF_CHARACTER[ord(character)] for character in token])
    except KeyError:
        return None
