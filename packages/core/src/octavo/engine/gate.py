"""What an engine process checks of requests itself, whatever its clients checked: nothing that comes in may harm others."""

from collections.abc import Sequence

from octavo.engine.client_messages import MAX_OUTPUT_BYTES
from octavo.engine.messages import EngineRequest, ModelInfo
from octavo.errors import InvalidRequestError
from octavo.input.checks import check_params

_BYTES_A_LOGPROB = 8
_BYTES_BESIDE = 1 << 20


def check_requests(requests: Sequence[EngineRequest], info: ModelInfo) -> None:
    """Refuse the requests of one prompt if their ids or parameters are beyond the model. Raises `InvalidRequestError`."""
    token_ids = requests[0].token_ids
    if token_ids and not 0 <= min(token_ids) <= max(token_ids) < info.vocab_size:
        raise InvalidRequestError(f"the prompt holds token ids outside [0, {info.vocab_size})", param="prompt")
    _check_size_of_answer(requests[0])
    for request in requests:
        if not -(2**63) <= request.seed < 2**64 or request.params.n != 1:
            raise InvalidRequestError("a request to the engine has a seed of 64 bits, and one choice")
        check_params(request.params, info)
        for sequence in request.bad_sequences:
            if not sequence or not 0 <= min(sequence) <= max(sequence) < info.vocab_size:
                raise InvalidRequestError(f"bad words hold token ids outside [0, {info.vocab_size})", param="bad_words")


def _check_size_of_answer(request: EngineRequest) -> None:
    """The log-probabilities of a prompt travel in one message."""
    if (num_top := request.params.prompt_logprobs) is None:
        return
    most = (MAX_OUTPUT_BYTES - _BYTES_BESIDE) // (_BYTES_A_LOGPROB * (num_top + 2))
    if len(request.token_ids) > most:
        raise InvalidRequestError(
            f"prompt_logprobs {num_top} can be given for {most:,} tokens at most, and the prompt has {len(request.token_ids):,}",
            param="prompt_logprobs",
        )
