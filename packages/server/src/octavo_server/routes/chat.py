"""`POST /v1/chat/completions`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from octavo.errors import InvalidRequestError
from octavo.text.messages import check_messages
from octavo_server.answers import answer
from octavo_server.calls import Call
from octavo_server.in_flight import PromptsInFlight
from octavo_server.prompt_reading import about_messages, beside_streams, read_conversation
from octavo_server.protocol.body import BodyReader
from octavo_server.protocol.chat import ChatRequest, ChatResponse
from octavo_server.protocol.chat_writer import ChatWriter
from octavo_server.protocol.conversation import conversation_of
from octavo_server.protocol.envelope import Heading
from octavo_server.protocol.schema import described
from octavo_server.protocol.unsupported import CHAT, IGNORED
from octavo_server.state import server_state

router = APIRouter(tags=["openai"])
_reader = BodyReader(ChatRequest, unsupported=CHAT, ignored=IGNORED)


@router.post("/v1/chat/completions", response_model=None, **described(ChatRequest, answer=ChatResponse, streams=True))
async def create_chat_completion(request: Request) -> Response:
    """Answer a conversation, in one piece or token by token."""
    state = server_state(request)
    body = await request.body()
    fields = _reader.read(body, state.unknown_fields)
    call = Call.of(request, state, model=fields.model, request_id=fields.request_id)
    fields.check_for(call.llm.info)
    fields.check_sequences(1, state.config.max_prompts_per_request)
    params = fields.sampling_params(
        call.llm, max_tokens=fields.output_limit, logprobs=fields.num_logprobs, prompt_logprobs=fields.prompt_logprobs
    )
    observations = call.observe(1)
    truncation = fields.truncation(call.llm.info.max_model_len, fields.output_limit)
    conversation = conversation_of(
        fields,
        call.llm.chat_template,
        trusts_templates=state.config.trust_request_chat_template,
        implied_names=fields.implied_names,
    )
    prompt = await read_conversation(body, call.llm, conversation, truncation)

    def open_one() -> PromptsInFlight:
        # Bad words are tokenized, too.
        return PromptsInFlight(call, [prompt], params, observations, priority=fields.priority or 0, cache_salt=fields.cache_salt)

    try:
        in_flight = await beside_streams(body, open_one)
    except InvalidRequestError as error:
        raise about_messages(error) from error
    heading = Heading(id=f"chatcmpl-{call.request_id}", created=call.created, model=call.model)
    echoed = check_messages(fields.messages)[-1]["content"] if fields.echo else ""
    writer = ChatWriter(heading, fields, in_flight.requests[0], call.llm.tokenizer, echoed=echoed)
    return await answer(request, in_flight, writer, fields, keep_alive_s=state.config.sse_keepalive_s)
