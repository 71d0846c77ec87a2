"""`POST /tokenize` and `POST /detokenize`."""

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from octavo.errors import InvalidRequestError, shown
from octavo_server.calls import served_model
from octavo_server.prompt_reading import beside_streams, read_conversation
from octavo_server.protocol.body import BodyReader, json_object
from octavo_server.protocol.conversation import conversation_of
from octavo_server.protocol.schema import described
from octavo_server.protocol.tokenize import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeChatRequest,
    TokenizeResponse,
    TokenizeTextRequest,
)
from octavo_server.protocol.unsupported import TOKENIZE
from octavo_server.state import server_state

router = APIRouter(tags=["tokens"])
_text_reader = BodyReader(TokenizeTextRequest)
_chat_reader = BodyReader(TokenizeChatRequest, unsupported=TOKENIZE)
_detokenize_reader = BodyReader(DetokenizeRequest)


@router.post("/tokenize", response_model=None, **described(TokenizeTextRequest, TokenizeChatRequest, answer=TokenizeResponse))
async def tokenize(request: Request) -> Response:
    """The tokens of a text, or of a conversation as a chat would render it."""
    state = server_state(request)
    llm = state.ready_llm()
    body = await request.body()
    values = json_object(body)
    if "messages" in values:
        chat = _chat_reader.convert(values, state.unknown_fields)
        served_model(state, chat.model)
        trusts_templates = state.config.trust_request_chat_template
        conversation = conversation_of(chat, llm.chat_template, trusts_templates=trusts_templates, implied_names={})
        token_ids = (await read_conversation(body, llm, conversation, is_to_run=False)).token_ids
        wants_spelling = chat.return_token_strs
    else:
        text = _text_reader.convert(values, state.unknown_fields)
        served_model(state, text.model)
        adds = text.add_special_tokens is not False
        token_ids = await beside_streams(body, lambda: llm.tokenizer.encode(text.prompt, add_special_tokens=adds))
        wants_spelling = text.return_token_strs
    return _json(
        TokenizeResponse(
            count=len(token_ids),
            max_model_len=llm.info.max_model_len,
            tokens=token_ids,
            token_strs=[llm.tokenizer.token(token_id) or "" for token_id in token_ids] if wants_spelling else None,
        )
    )


@router.post("/detokenize", response_model=None, **described(DetokenizeRequest, answer=DetokenizeResponse))
async def detokenize(request: Request) -> Response:
    """The text of tokens, special ones included."""
    state = server_state(request)
    llm = state.ready_llm()
    body = await request.body()
    fields = _detokenize_reader.read(body, state.unknown_fields)
    served_model(state, fields.model)
    for token_id in fields.tokens:
        if not 0 <= token_id < llm.info.vocab_size:
            limit = f"[0, {llm.info.vocab_size})"
            raise InvalidRequestError(f"token id {shown(token_id)} is not one of the model's, which are in {limit}", param="tokens")
    text = await beside_streams(body, lambda: llm.tokenizer.decode(fields.tokens, skip_special_tokens=False))
    return _json(DetokenizeResponse(prompt=text))


def _json(answer: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
