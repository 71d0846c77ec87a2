"""`POST /v1/completions`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from octavo.input.prompts import TokenizedPrompt
from octavo_server.answers import answer
from octavo_server.calls import Call
from octavo_server.in_flight import PromptsInFlight
from octavo_server.prompt_reading import beside_streams
from octavo_server.protocol.body import BodyReader
from octavo_server.protocol.completion_writer import CompletionWriter
from octavo_server.protocol.completions import CompletionRequest, CompletionResponse
from octavo_server.protocol.envelope import Heading
from octavo_server.protocol.schema import described
from octavo_server.protocol.unsupported import COMPLETION, IGNORED
from octavo_server.state import server_state

router = APIRouter(tags=["openai"])
_reader = BodyReader(CompletionRequest, unsupported=COMPLETION, ignored=IGNORED)


@router.post("/v1/completions", response_model=None, **described(CompletionRequest, answer=CompletionResponse, streams=True))
async def create_completion(request: Request) -> Response:
    """Continue prompts, in one piece or token by token."""
    state = server_state(request)
    body = await request.body()
    fields = _reader.read(body, state.unknown_fields)
    call = Call.of(request, state, model=fields.model, request_id=fields.request_id)
    fields.check()
    params = fields.sampling_params(
        call.llm, max_tokens=fields.output_limit, logprobs=fields.logprobs, prompt_logprobs=fields.wanted_prompt_logprobs
    )
    given = fields.prompts(state.config.max_prompts_per_request)
    observations = call.observe(len(given))
    truncation = fields.truncation(call.llm.info.max_model_len, fields.output_limit)

    def read() -> list[TokenizedPrompt]:
        adds = fields.add_special_tokens is not False
        return call.llm.reader.read(given, numbered=len(given) > 1, add_special_tokens=adds, truncation=truncation)

    prompts = await beside_streams(body, read)

    def open_all() -> PromptsInFlight:
        # Bad words are tokenized, too.
        return PromptsInFlight(call, prompts, params, observations, priority=fields.priority or 0, cache_salt=fields.cache_salt)

    in_flight = await beside_streams(body, open_all)
    heading = Heading(id=f"cmpl-{call.request_id}", created=call.created, model=call.model)
    writer = CompletionWriter(heading, fields, prompts, in_flight.requests, call.llm.tokenizer)
    return await answer(request, in_flight, writer, fields, keep_alive_s=state.config.sse_keepalive_s)
