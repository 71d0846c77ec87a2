"""A tokenizer from the key-values of a GGUF file."""

from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from octavo.model.foreign import ForeignFields
from octavo.model.gguf_metadata import GGUFMetadata
from octavo.text.backend import failing_as
from octavo.text.pre_tokenizers import SplitRules, split_rules
from octavo.text.tokenizer_settings import TokenizerSettings

# Values of tokenizer.ggml.token_type.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_ROLES = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
}
_ENDS = ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
_SPACE = "\u2581"


def read_gguf_tokenizer(metadata: GGUFMetadata) -> TokenizerSettings:
    """Build the tokenizer that a GGUF file describes: byte-level BPE ("gpt2") or SentencePiece's BPE ("llama").

    Raises `CheckpointError` for another kind, and for lists that are missing or do not fit together.
    """
    fields = ForeignFields(metadata.values, str(metadata.path), "tokenizer")
    tokens = _strings(fields, "tokenizer.ggml.tokens")
    special_tokens = {role: _spelling(fields, key, tokens) for role, key in _ROLES.items() if fields.token_ids(key)}
    match fields.text("tokenizer.ggml.model"):
        case "gpt2":
            rules = split_rules(fields.text("tokenizer.ggml.pre", "default"))
            backend, adds_bos = _byte_level(fields, tokens, rules), rules.adds_bos
        case "llama":
            backend, adds_bos = _sentence_piece(fields, tokens, special_tokens.get("unk_token")), True
        case kind:
            raise fields.refused(f"tokenizer.ggml.model is {kind!r}, which is not supported; 'gpt2' and 'llama' are")
    _add_tokens(backend, fields, tokens)
    return TokenizerSettings(
        backend=backend,
        special_tokens=special_tokens,
        adds_bos=fields.boolean("tokenizer.ggml.add_bos_token", adds_bos),
        adds_eos=fields.boolean("tokenizer.ggml.add_eos_token", False),
        chat_template=fields.text("tokenizer.chat_template") if fields.has("tokenizer.chat_template") else None,
    )


def _byte_level(fields: ForeignFields, tokens: list[str], rules: SplitRules) -> Backend:
    merges = [tuple(merge.split(" ")) for merge in _strings(fields, "tokenizer.ggml.merges")]
    if any(len(merge) != 2 for merge in merges):
        raise fields.refused("tokenizer.ggml.merges must hold pairs of tokens with one space between")
    backend = _backend(fields, tokens, merges, ignore_merges=rules.ignores_merges)
    if rules.normalizes_nfc:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _pre_tokenizer(rules)
    backend.decoder = decoders.ByteLevel()
    return backend


def _pre_tokenizer(rules: SplitRules) -> pre_tokenizers.PreTokenizer:
    steps: list[pre_tokenizers.PreTokenizer] = []
    if rules.splits_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if rules.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(rules.pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rules.pattern is None))
    return pre_tokenizers.Sequence(steps)


def _sentence_piece(fields: ForeignFields, tokens: list[str], unknown: str | None) -> Backend:
    scores = _numbers(fields, "tokenizer.ggml.scores", len(tokens))
    merges = _merges_by_score(tokens, scores, _token_types(fields, len(tokens)))
    backend = _backend(fields, tokens, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    replace = normalizers.Replace(" ", _SPACE)
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if fields.boolean("tokenizer.ggml.add_space_prefix", True):
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replace])
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        backend.normalizer = replace
    backend.decoder = decoders.Sequence(steps)
    return backend


def _merges_by_score(tokens: list[str], scores: Sequence[float], types: Sequence[int]) -> list[tuple[str, str]]:
    """The merges that SentencePiece's scores stand for: a pair may merge when the whole is a piece, best score first.

    Algorithm: Kudo and Richardson 2018; a piece's score ranks its merge, ties go to the earlier piece.
    """
    normal = {token: index for index, token in enumerate(tokens) if types[index] == _NORMAL}
    ranked = sorted(normal.values(), key=lambda index: -scores[index])
    return [
        (left, right)
        for token in map(tokens.__getitem__, ranked)
        for cut in range(1, len(token))
        if (left := token[:cut]) in normal and (right := token[cut:]) in normal
    ]


def _backend(fields: ForeignFields, tokens: list[str], merges: list[Any], **options: Any) -> Backend:
    vocabulary = dict(zip(tokens, range(len(tokens)), strict=True))
    with failing_as(fields.refused, "its tokens and merges do not fit together"):
        return Backend(models.BPE(vocabulary, merges, **options))


def _add_tokens(backend: Backend, fields: ForeignFields, tokens: list[str]) -> None:
    """Mark the tokens that are found in text before anything is split or merged."""
    types = _token_types(fields, len(tokens))
    special = {index for index, kind in enumerate(types) if kind in {_CONTROL, _UNKNOWN}}
    special |= {token_id for key in (*_ROLES.values(), *_ENDS) for token_id in fields.token_ids(key) if token_id < len(tokens)}
    other = [index for index, kind in enumerate(types) if kind == _USER_DEFINED and index not in special]
    backend.add_special_tokens([AddedToken(tokens[index], special=True, normalized=False) for index in sorted(special)])
    backend.add_tokens([AddedToken(tokens[index], special=False, normalized=False) for index in other])


def _token_types(fields: ForeignFields, count: int) -> Sequence[int]:
    key = "tokenizer.ggml.token_type"
    return [int(kind) for kind in _numbers(fields, key, count)] if fields.has(key) else [_NORMAL] * count


def _strings(fields: ForeignFields, key: str) -> list[str]:
    values = fields.values.get(key)
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise fields.refused(f"{key} must be there and hold strings")
    return values


def _numbers(fields: ForeignFields, key: str, count: int) -> list[float]:
    values = fields.values.get(key)
    if not isinstance(values, list) or len(values) != count or not isinstance(values[0], (int, float)):
        raise fields.refused(f"{key} must be there and hold one number for each of the {count} tokens")
    return values


def _spelling(fields: ForeignFields, key: str, tokens: list[str]) -> str:
    token_id = fields.token_ids(key)[0]
    if token_id >= len(tokens):
        raise fields.refused(f"{key} is {token_id}, but there are {len(tokens)} tokens")
    return tokens[token_id]
