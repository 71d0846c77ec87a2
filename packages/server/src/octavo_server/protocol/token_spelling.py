"""How a token is written in an answer."""

from octavo.text.tokenizer import Tokenizer


class TokenSpelling:
    """Writes tokens as OpenAI does: as their text, or as escaped bytes where they are no whole characters.

    Args:
        tokenizer: of the model.
        as_ids: write "token_id:5" instead, so that no two tokens are written alike.
    """

    def __init__(self, tokenizer: Tokenizer, *, as_ids: bool) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._as_ids = as_ids

    def text(self, token_id: int) -> str:
        """The token for people and as a key."""
        if self._as_ids:
            return f"token_id:{token_id}"
        data = self._token_bytes(token_id)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def bytes(self, token_id: int) -> list[int]:
        """Its bytes, which joined over tokens are the text's."""
        return list(self._token_bytes(token_id))
