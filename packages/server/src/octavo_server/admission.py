"""The door: what is let in to wait for the engine, and what is sent away with 503 before anything is queued."""

from octavo_server.errors import RETRY_SOON_S, ApiError, unavailable
from octavo_server.state import ServerState


def admit(state: ServerState, num_requests: int, num_tokens: int) -> None:
    """Return where requests may be queued now; call it right before they are.

    What waits is what the engine says, and what this process sent it since: with several API processes, requests that come to them at the
    same moment may pass the limit together. A request that nothing waits in front of is let in whatever its prompt's length.

    Args:
        state: of this process.
        num_requests: sequences to come, each of the `n` choices of a prompt.
        num_tokens: of their prompts.

    Raises:
        ApiError: 503 with `Retry-After`: the server is starting or shutting down, the engine is lost, or the queue is full.
    """
    llm = state.ready_llm()
    load = llm.load()
    # Where nobody waits there is room, and who finds room does not have to wait.
    places = 0 if load.waiting else max(0, llm.info.max_num_seqs - load.running)
    limit, token_limit = state.config.max_queued_requests, state.config.max_queued_tokens
    if limit is not None and load.waiting + num_requests - places > limit:
        raise _full(f"{load.waiting} requests wait and {num_requests} more would be over --max-queued-requests {limit}")
    if token_limit is not None and load.waiting and load.waiting_tokens + num_tokens > token_limit:
        raise _full(f"{load.waiting_tokens} prompt tokens wait and {num_tokens} more would be over --max-queued-tokens {token_limit}")


def _full(message: str) -> ApiError:
    return unavailable(f"the queue is full: {message}", retry_after_s=RETRY_SOON_S, code="queue_full")
