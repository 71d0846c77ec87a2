"""What each tenant asked for and got."""

from dataclasses import replace

from octavo.cache.ledger import BlockLedger
from octavo.metrics.stats import TenantUsage
from octavo.request import Request


class TenantBook:
    """Counts tokens when requests end; block-seconds come from the ledger of the pool."""

    def __init__(self, ledger: BlockLedger) -> None:
        self._ledger = ledger
        self._usage: dict[str, TenantUsage] = {}

    def note_end(self, request: Request, num_output_tokens: int) -> None:
        """Count a request that ended, and what it gained that is worth something to its user.

        Later members of a group bring output only: their prompt is their leader's.
        """
        usage = self._usage.get(request.tenant)
        if usage is None:
            usage = self._usage[request.tenant] = TenantUsage()
        usage.generated_tokens += num_output_tokens
        if request.leader is None and request.num_cached_tokens >= 0:
            usage.prompt_tokens += request.num_prompt_tokens
            usage.cached_tokens += request.num_cached_tokens

    def snapshot(self) -> dict[str, TenantUsage]:
        """Usage of every tenant so far."""
        usage = {tenant: replace(counts) for tenant, counts in self._usage.items()}
        for tenant, seconds in self._ledger.block_seconds().items():
            usage.setdefault(tenant, TenantUsage()).kv_block_seconds = seconds
        return usage
