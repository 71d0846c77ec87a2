"""`POST /v1/messages` and `POST /v1/messages/count_tokens`: Anthropic's API."""

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from octavo.errors import InvalidRequestError
from octavo_server.answers import answer_in_events, answer_whole
from octavo_server.calls import Call, served_model
from octavo_server.dialects import COUNT_TOKENS_PATH, MESSAGES_PATH, anthropic_error
from octavo_server.in_flight import PromptsInFlight
from octavo_server.prompt_reading import about_messages, read_conversation
from octavo_server.protocol.body import BodyReader
from octavo_server.protocol.generation_fields import check_cache_salt
from octavo_server.protocol.messages import CountTokensRequest, CountTokensResponse, MessagesRequest, MessagesResponse
from octavo_server.protocol.messages_conversation import conversation_of_messages
from octavo_server.protocol.messages_writer import MessagesWriter, event
from octavo_server.protocol.schema import described
from octavo_server.protocol.unsupported import MESSAGES, MESSAGES_IGNORED
from octavo_server.sse import EventForm
from octavo_server.state import server_state

router = APIRouter(tags=["anthropic"])
_reader = BodyReader(MessagesRequest, unsupported=MESSAGES, ignored=MESSAGES_IGNORED)
_count_reader = BodyReader(CountTokensRequest, unsupported=MESSAGES, ignored=MESSAGES_IGNORED)
_EVENTS = EventForm(error=lambda problem: event(anthropic_error(problem)), end=b"")


@router.post(MESSAGES_PATH, response_model=None, **described(MessagesRequest, answer=MessagesResponse, streams=True))
async def create_message(request: Request) -> Response:
    """Answer a conversation in Anthropic's form, in one piece or as events."""
    state = server_state(request)
    body = await request.body()
    fields = _reader.read(body, state.unknown_fields)
    call = Call.of(request, state, model=fields.model)
    params = fields.sampling_params(call.llm)
    check_cache_salt(fields.cache_salt)
    observations = call.observe(1)
    conversation = conversation_of_messages(fields)
    prompt = await read_conversation(body, call.llm, conversation)
    try:
        in_flight = PromptsInFlight(call, [prompt], params, observations, cache_salt=fields.cache_salt)
    except InvalidRequestError as error:
        raise about_messages(error) from error
    writer = MessagesWriter(message_id=f"msg_{call.request_id}", model=call.model, num_prompt_tokens=in_flight.num_prompt_tokens)
    if fields.stream:
        return answer_in_events(in_flight, writer, keep_alive_s=state.config.sse_keepalive_s, form=_EVENTS)
    return await answer_whole(request.receive, in_flight, writer.whole)


@router.post(COUNT_TOKENS_PATH, response_model=None, **described(CountTokensRequest, answer=CountTokensResponse))
async def count_message_tokens(request: Request) -> Response:
    """How many tokens the prompt of a conversation has."""
    state = server_state(request)
    llm = state.ready_llm()
    body = await request.body()
    fields = _count_reader.read(body, state.unknown_fields)
    served_model(state, fields.model)
    conversation = conversation_of_messages(fields)
    prompt = await read_conversation(body, llm, conversation, is_to_run=False)
    answer = CountTokensResponse(input_tokens=len(prompt.token_ids))
    return Response(msgspec.json.encode(answer), media_type="application/json")
