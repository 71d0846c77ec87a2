"""A device that only keeps books: it runs plans on the fake model and finds every fault in them that a real one would suffer from."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from octavo.logprobs import LogprobRows
from octavo.scheduler.plan import AddedRequest, StepPlan, StepResult
from octavo.testing.model import Draw, fake_logprobs, fold, next_token, scripted
from octavo.types import NULL_BLOCK


@dataclass
class _Row:
    """What a runner keeps of a request: its tokens, their KV as it must be, its block tables, and how far it came."""

    request: AddedRequest
    tables: list[list[int]]
    num_computed: int
    num_logprobs: int = 0
    token_ids: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)

    def append(self, token_id: int) -> None:
        self.token_ids.append(token_id)
        self.states.append(fold(self.states[-1] if self.states else 0, token_id))


class FakeDevice:
    """Memory of `num_blocks` blocks for each id, and the batch.

    `execute` checks what the plan promises: who is known, what is computed, that block tables reach, that no step is over its limits,
    and, for every row, that the KV it reads through its block tables is that of its own tokens. A breach is an `AssertionError`.

    Attributes:
        block_sizes: of each KV group.
        windows: tokens that a token sees in each KV group, itself included; None is all.
        num_blocks: ids go up to this.
        max_num_seqs, max_num_batched_tokens: limits of a step; 0 is none.
        step_s: least duration of a step in seconds, for tests whose requests are to run for a while.
    """

    def __init__(
        self,
        block_sizes: Sequence[int] = (16,),
        *,
        num_blocks: int,
        windows: Sequence[int | None] = (),
        vocab_size: int = 1000,
        max_num_seqs: int = 0,
        max_num_batched_tokens: int = 0,
        draw: Draw | None = None,
        step_s: float = 0,
    ) -> None:
        self.block_sizes = tuple(block_sizes)
        self.windows = tuple(windows) or (None,) * len(self.block_sizes)
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.num_blocks = num_blocks
        self.step_s = step_s
        self._vocab_size = vocab_size
        self._draw = draw or scripted({})
        self._memory: dict[int, list[int]] = {}
        self._rows: dict[str, _Row] = {}
        self._next_step = 0

    @property
    def request_ids(self) -> set[str]:
        """Requests that the device holds."""
        return set(self._rows)

    def token_ids(self, request_id: str) -> list[int]:
        """Prompt and output of a request that the device holds."""
        return list(self._rows[request_id].token_ids)

    def block_tables(self, request_id: str) -> list[list[int]]:
        """Block tables of a request that the device holds."""
        return [list(table) for table in self._rows[request_id].tables]

    def execute(self, plan: StepPlan) -> StepResult:
        """Run one step."""
        assert plan.step_id == self._next_step, "steps come in order"
        self._next_step += 1
        if self.step_s:
            time.sleep(self.step_s)
        self._apply(plan)
        self._check_limits(plan)
        for request_id, count in plan.num_tokens.items():
            self._write(self._rows[request_id], count)
        for request_id, count in plan.num_tokens.items():
            self._read(self._rows[request_id], count)
        prompt_logprobs = {name: self._prompt_logprobs(self._rows[name], count) for name, count in plan.num_tokens.items()}
        token_ids = {name: [self._sample(name, count)] for name, count in plan.num_output_tokens.items()}
        return StepResult(
            step_id=plan.step_id,
            token_ids=token_ids,
            logprobs={
                name: fake_logprobs(sampled, num_top=num_top)
                for name, sampled in token_ids.items()
                if (num_top := self._rows[name].request.params.logprobs) is not None
            },
            prompt_logprobs={name: rows for name, rows in prompt_logprobs.items() if rows is not None},
        )

    def _apply(self, plan: StepPlan) -> None:
        for request_id in plan.removed:
            del self._rows[request_id]
        for added in plan.added:
            assert added.request_id not in self._rows, f"{added.request_id} is added twice"
            row = _Row(added, [list(table) for table in added.block_ids], added.num_computed_tokens, added.num_prompt_logprobs)
            for token_id in added.token_ids:
                row.append(token_id)
            self._rows[added.request_id] = row
        for continued in plan.continued:
            row = self._rows[continued.request_id]
            assert continued.epoch == row.request.epoch, f"{continued.request_id} is of another epoch"
            assert continued.num_computed_tokens == row.num_computed, f"{continued.request_id} lost or doubled tokens"
            for table, new in zip(row.tables, continued.new_block_ids, strict=True):
                table.extend(new)

    def _check_limits(self, plan: StepPlan) -> None:
        ids = [added.request_id for added in plan.added] + [continued.request_id for continued in plan.continued]
        assert sorted(ids) == sorted(plan.num_tokens), "every added and continued request, and no other, runs"
        assert all(count > 0 for count in plan.num_tokens.values()), "a request runs no tokens"
        assert not self.max_num_batched_tokens or plan.total_tokens <= self.max_num_batched_tokens, "the step is over its budget"
        assert not self.max_num_seqs or len(self._rows) <= self.max_num_seqs, "the device holds too many requests"
        for request_id in ids:
            for table in self._rows[request_id].tables:
                assert all(NULL_BLOCK <= block <= self.num_blocks for block in table), f"{request_id} has a block that is none"

    def _write(self, row: _Row, count: int) -> None:
        end = row.num_computed + count
        assert end <= len(row.token_ids), f"{row.request.request_id} runs tokens that it does not have"
        for group, (size, table) in enumerate(zip(self.block_sizes, row.tables, strict=True)):
            assert end <= len(table) * size, f"{row.request.request_id} lacks blocks"
            for position in range(row.num_computed, end):
                block = table[position // size]
                assert block != NULL_BLOCK, f"{row.request.request_id} writes into the null block"
                self._block(group, block)[position % size] = row.states[position]
        row.num_computed = end

    def _read(self, row: _Row, count: int) -> None:
        for group, (size, window, table) in enumerate(zip(self.block_sizes, self.windows, row.tables, strict=True)):
            first_read = 0 if window is None else max(0, row.num_computed - count - window + 1)
            for start in range(first_read // size * size, row.num_computed, size):
                unread = max(0, first_read - start)
                expected = row.states[start + unread : min(start + size, row.num_computed)]
                block = table[start // size]
                assert block != NULL_BLOCK, f"{row.request.request_id} reads the null block"
                found = self._block(group, block)[unread : unread + len(expected)]
                assert found == expected, f"{row.request.request_id} reads KV that is not its own in block {block}"

    @staticmethod
    def _prompt_logprobs(row: _Row, count: int) -> LogprobRows | None:
        """Of the tokens of the prompt behind those that the step ran; the request is through with them up to `num_computed`."""
        request = row.request
        num_top, first = request.params.prompt_logprobs, row.num_computed - count
        if num_top is None or row.num_logprobs == request.num_prompt_tokens - 1:
            return None
        assert first <= row.num_logprobs, f"{request.request_id} skips tokens of its prompt"
        tokens = row.token_ids[row.num_logprobs + 1 : min(row.num_computed + 1, request.num_prompt_tokens)]
        row.num_logprobs += len(tokens)
        return fake_logprobs(tokens, num_top=num_top) if tokens else None

    def _sample(self, request_id: str, num_output_tokens: int) -> int:
        row = self._rows[request_id]
        assert row.num_computed == len(row.token_ids), f"{request_id} samples before its last token"
        assert num_output_tokens == len(row.token_ids) - row.request.num_prompt_tokens, f"{request_id} miscounts its output"
        params = row.request.params
        token_id = next_token(
            sum(row.states),
            vocab_size=self._vocab_size,
            seed=0 if params.is_greedy else row.request.seed,
            banned=row.request.ending_token_ids if num_output_tokens < params.min_tokens else (),
        )
        token_id = self._draw(request_id, num_output_tokens, token_id)
        row.append(token_id)
        return token_id

    def _block(self, group: int, block: int) -> list[int]:
        """Content of a block as a group sees it, its number last; all groups share the memory, and what another one wrote is garbage."""
        content, size = self._memory.get(block), self.block_sizes[group]
        if content is None or content[size:] != [group]:
            content = self._memory[block] = [-1] * size + [group]
        return content
