"""What a step owes the requests that reached the end of their tokens in it."""

from octavo.request import Request
from octavo.scheduler.plan import StepResult


def shortfall(request: Request, result: StepResult) -> str | None:
    """What is missing of a request's share in a result, in words; None where all is there. Only a faulty runner falls short."""
    if request.lacks_prompt_logprobs:
        due = request.num_prompt_tokens - 1
        return f"the runner returned log-probabilities of {request.num_prompt_logprobs} tokens of the prompt where {due} were due"
    if request.max_total_tokens == request.num_prompt_tokens:
        return None
    token_ids = result.token_ids.get(request.request_id)
    if token_ids is None or len(token_ids) != 1:
        return f"the runner returned {token_ids} where one sampled token was due"
    if request.params.logprobs is not None and len(result.logprobs.get(request.request_id, ())) != 1:
        return "the runner returned no log-probabilities of the token that it sampled"
    return None
