"""Text to token ids and back."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer as Backend

from octavo.errors import CheckpointError, InvalidRequestError
from octavo.model.gguf_metadata import read_gguf_metadata
from octavo.model.source import ModelFiles
from octavo.text.backend import failing_as
from octavo.text.gguf_tokenizer import read_gguf_tokenizer
from octavo.text.huggingface_tokenizer import read_huggingface_tokenizer
from octavo.text.pieces import PieceTable, read_piece_rules
from octavo.text.tokenizer_settings import TokenizerSettings


def load_tokenizer(files: ModelFiles) -> "Tokenizer":
    """The tokenizer of a model on disk. Raises `CheckpointError` naming what is missing, damaged or not supported.

    Where the weights are made up, the tokenizer may be missing too: then there are only token ids.
    """
    if files.format == "gguf":
        metadata = read_gguf_metadata(files.weights[0], with_data=not files.dummy)
        return _usable(lambda: read_gguf_tokenizer(metadata), files.weights[0])
    if files.dummy and files.tokenizer is None:
        from octavo.text.token_ids_only import TokenIdsOnly

        return TokenIdsOnly()
    return _usable(lambda: read_huggingface_tokenizer(files), files.tokenizer or files.folder)


def _usable(read: Callable[[], TokenizerSettings], path: Path) -> "Tokenizer":
    """The tokenizer of settings, tried out: what a damaged file brings the library to fail at shows here, not with the first request."""
    with failing_as(CheckpointError, f"the tokenizer in {path} cannot be used"):
        return Tokenizer(read())


class Tokenizer:
    """A model's tokenizer. Has no state that calls change; threads may share it.

    Attributes:
        vocab_size: one more than the highest token id.
        bos_token_id, eos_token_id: where the tokenizer has them.
        special_tokens: role -> spelling, such as "eos_token" -> "</s>".
        special_token_ids: what `skip_special_tokens` leaves out.
        strips_leading_space: a space at the very start of a decoded text belongs to the tokenizer, not to the text.
        chat_template: the jinja source that came with it.
        makes_text: whether there is any text; False where a model has no tokenizer.
    """

    makes_text: ClassVar[bool] = True

    def __init__(self, settings: TokenizerSettings) -> None:
        self._backend = settings.backend
        added = self._backend.get_added_tokens_decoder()
        vocabulary = self._backend.get_vocab_size(with_added_tokens=True)
        rules = read_piece_rules(self._backend)
        self._pieces = PieceTable(self._backend, rules, frozenset(added))
        self.strips_leading_space = rules.strips_leading_space
        self.vocab_size = max(vocabulary, max(added, default=-1) + 1)
        self.special_token_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        self.special_tokens = dict(settings.special_tokens)
        self.bos_token_id = self._id_of("bos_token")
        self.eos_token_id = self._id_of("eos_token")
        self.chat_template = settings.chat_template
        self._prefix, self._suffix = self._surroundings(settings)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text. Special tokens spelled out in it become their ids.

        Args:
            text: any text.
            add_special_tokens: put BOS (and EOS) around it as the model wants; a text that begins with BOS gets no second one.

        Raises:
            InvalidRequestError: the text holds half of a surrogate pair, which no encoding has, or the tokenizer fails at it.
        """
        return self.encode_batch([text], add_special_tokens=add_special_tokens)[0]

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[list[int]]:
        """`encode` for many texts, on all cores."""
        for text in texts:
            _check_text(text)
        with failing_as(
            _about_the_prompt, "the model's tokenizer cannot encode " + ("the text" if len(texts) == 1 else "one of the texts")
        ):
            # Also for one text: the library's `encode` would keep the interpreter's lock, and so hold up every other thread.
            batch = [encoding.ids for encoding in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        return [self._surround(ids) for ids in batch] if add_special_tokens else batch

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Text of token ids. Bytes that are no UTF-8 become U+FFFD; ids that the tokenizer does not have become nothing."""
        pieces = self._pieces
        if skip_special_tokens:
            special = self.special_token_ids
            data = b"".join([pieces[token_id] for token_id in token_ids if token_id not in special])
        else:
            data = b"".join([pieces[token_id] for token_id in token_ids])
        text = data.decode(errors="replace")
        return text[1:] if self.strips_leading_space and text.startswith(" ") else text

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token stands for, a part of a character perhaps; nothing for ids that the tokenizer does not have."""
        return self._pieces[token_id]

    def token(self, token_id: int) -> str | None:
        """The token as the vocabulary spells it, such as "Ġthe"; None for ids that the tokenizer does not have."""
        return self._backend.id_to_token(token_id) if 0 <= token_id < self.vocab_size else None

    def token_id(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it."""
        return self._backend.token_to_id(token)

    def _id_of(self, role: str) -> int | None:
        spelling = self.special_tokens.get(role)
        return None if spelling is None else self._backend.token_to_id(spelling)

    def _surroundings(self, settings: TokenizerSettings) -> tuple[list[int], list[int]]:
        """Ids before and after a text: what the backend's post-processor adds, unless the settings say otherwise."""
        prefix, suffix = _post_processor_ids(self._backend)
        if settings.adds_bos is not None:
            prefix = [self.bos_token_id] if settings.adds_bos and self.bos_token_id is not None else []
        if settings.adds_eos is not None:
            suffix = [self.eos_token_id] if settings.adds_eos and self.eos_token_id is not None else []
        return prefix, suffix

    def _surround(self, ids: list[int]) -> list[int]:
        has_prefix = ids[: len(self._prefix)] == self._prefix
        return (ids if has_prefix else self._prefix + ids) + self._suffix


def _post_processor_ids(backend: Backend) -> tuple[list[int], list[int]]:
    plain: list[int] = backend.encode("a", add_special_tokens=False).ids
    full: list[int] = backend.encode("a", add_special_tokens=True).ids
    for start in range(len(full) - len(plain) + 1):
        if full[start : start + len(plain)] == plain:
            return full[:start], full[start + len(plain) :]
    return [], []


def _about_the_prompt(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, param="prompt")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError("the text holds half of a surrogate pair (U+D800 to U+DFFF), which is no character") from error
