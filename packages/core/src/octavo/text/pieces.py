"""What bytes each token stands for: the decoding half of a tokenizer, one token at a time."""

import json
import re
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Backend

from octavo.errors import CheckpointError
from octavo.text.byte_alphabet import alphabet_to_bytes

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, kw_only=True)
class PieceRules:
    """How a token's spelling becomes bytes.

    Attributes:
        byte_level: the spelling is in the alphabet of byte-level BPE.
        byte_tokens: "<0x0A>" is the byte 10 (SentencePiece's byte fallback).
        replacements: (old, new) in spellings, such as ("▁", " ").
        strips_leading_space: one space at the very start of a text is no part of it: the tokenizer puts one before every text.
    """

    byte_level: bool = False
    byte_tokens: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    strips_leading_space: bool = False


def read_piece_rules(backend: Backend) -> PieceRules:
    """Derive the rules from a tokenizer's decoder. Raises `CheckpointError` naming a decoder that is not known."""
    decoder = backend.decoder
    if decoder is None:
        raise CheckpointError("the tokenizer has no decoder, so it cannot turn tokens into text; byte-level and SentencePiece ones can")
    state = json.loads(decoder.__getstate__())
    steps = state["decoders"] if state["type"] == "Sequence" else [state]
    replacements: list[tuple[str, str]] = []
    kinds = set()
    strips = False
    for step in steps:
        kinds.add(step["type"])
        match step:
            case {"type": "Replace", "pattern": {"String": old}, "content": new}:
                replacements.append((old, new))
            case {"type": "Strip", "content": " ", "start": 0 | 1, "stop": 0}:
                strips = step["start"] == 1
            case {"type": "Metaspace"}:
                replacements.append((step["replacement"], " "))
                strips = _metaspace_adds_prefix(step)
            case {"type": "ByteLevel" | "ByteFallback" | "Fuse"}:
                pass
            case _:
                raise CheckpointError(f"the tokenizer's decoder step {json.dumps(step)} is not supported")
    return PieceRules(
        byte_level="ByteLevel" in kinds,
        byte_tokens="ByteFallback" in kinds,
        replacements=tuple(replacements),
        strips_leading_space=strips,
    )


def _metaspace_adds_prefix(step: dict[str, Any]) -> bool:
    scheme = step.get("prepend_scheme")
    return bool(step.get("add_prefix_space", True)) if scheme is None else scheme != "never"


class PieceTable(dict[int, bytes]):
    """Token id -> bytes, filled as ids are asked for; an id that the tokenizer does not have stands for nothing.

    Bytes of neighbouring tokens are joined before they are decoded, since a character may be spread over several tokens.
    """

    def __init__(self, backend: Backend, rules: PieceRules, added_token_ids: frozenset[int]) -> None:
        super().__init__()
        self._backend = backend
        self._rules = rules
        self._added_token_ids = added_token_ids

    def __missing__(self, token_id: int) -> bytes:
        piece = self[token_id] = self._piece(token_id)
        return piece

    def _piece(self, token_id: int) -> bytes:
        token = self._backend.id_to_token(token_id) if 0 <= token_id < 1 << 32 else None
        if token is None:
            return b""
        rules = self._rules
        if rules.byte_level and token_id not in self._added_token_ids and (spelled := alphabet_to_bytes(token)) is not None:
            return spelled
        if rules.byte_tokens and (match := _BYTE_TOKEN.fullmatch(token)):
            return bytes([int(match[1], 16)])
        for old, new in rules.replacements:
            token = token.replace(old, new)
        return token.encode()
