"""The settings under which the tokens must be the same, and what each must show beside that."""

from dataclasses import dataclass
from typing import Any, Literal

Cached = Literal["nothing", "shared", "everything"]

NO_CACHE: dict[str, Any] = {"enable_prefix_caching": False}
SMALL_STEPS: dict[str, Any] = {"max_num_batched_tokens": 32}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One pass of all prompts through an engine.

    Attributes:
        name: what is special about it.
        alone: each prompt in a call of its own, instead of all in one.
        cached: prompt tokens that must come from the prefix cache: none, those shared with an earlier prompt, or every full block.
        priorities: give requests random priorities.
    """

    name: str
    alone: bool = False
    cached: Cached = "nothing"
    priorities: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An engine and the runs it is put through, one after another.

    Attributes:
        name: shown in the table.
        block_size: tokens a block.
        flags: further engine flags.
        runs: in order.
        spare_blocks: None: a pool that holds everything twice; else blocks beyond what the longest request needs.
        min_preemptions: how often requests must give way to prove that they did; 0: they must not.
    """

    name: str
    block_size: int
    runs: tuple[Run, ...]
    flags: dict[str, Any]
    spare_blocks: int | None = None
    min_preemptions: int = 0

    def pool_flags(self, lengths: list[int]) -> dict[str, int]:
        """Flags of a pool for requests of these total lengths, in tokens."""
        blocks = [-(-length // self.block_size) for length in lengths]
        num_blocks = 2 * sum(blocks) if self.spare_blocks is None else max(blocks) + self.spare_blocks
        return {"num_blocks": num_blocks, "max_model_len": max(lengths)}


ALONE, TOGETHER = Run(name="alone", alone=True), Run(name="together")
COLD, WARM = Run(name="cold", cached="shared"), Run(name="warm", cached="everything")
BY_PRIORITY = Run(name="priorities", priorities=True)

QUICK = (
    Setting(name="block 16, cache off", block_size=16, flags=NO_CACHE, runs=(ALONE, TOGETHER)),
    Setting(name="block 8, budget 32, cache on", block_size=8, flags=SMALL_STEPS | {"max_num_seqs": 8}, runs=(COLD, WARM)),
)
QUICK_CROWD = (
    Setting(name="block 8, small pool", block_size=8, flags=NO_CACHE, runs=(TOGETHER,), spare_blocks=12, min_preemptions=2),
    Setting(
        name="block 8, small pool, budget 32, priority",
        block_size=8,
        flags=NO_CACHE | SMALL_STEPS | {"max_num_seqs": 8, "scheduling_policy": "priority"},
        runs=(BY_PRIORITY,),
        spare_blocks=12,
        min_preemptions=1,
    ),
)

FULL = (
    Setting(name="block 16, cache off", block_size=16, flags=NO_CACHE, runs=(ALONE, TOGETHER)),
    Setting(name="block 8, cache off", block_size=8, flags=NO_CACHE, runs=(TOGETHER,)),
    Setting(name="block 8, cache on", block_size=8, flags={}, runs=(COLD, WARM)),
    Setting(name="block 16, cache on", block_size=16, flags={}, runs=(COLD, WARM)),
    Setting(name="block 16, worker process", block_size=16, flags={"executor": "multiprocess"}, runs=(COLD, WARM)),
    Setting(name="block 16, budget 32, cache off", block_size=16, flags=NO_CACHE | SMALL_STEPS | {"max_num_seqs": 32}, runs=(TOGETHER,)),
    Setting(name="block 8, budget 32, cache on", block_size=8, flags=SMALL_STEPS | {"max_num_seqs": 8}, runs=(COLD, WARM)),
)
FULL_SMALL_POOL = (
    Setting(name="block 16, small pool", block_size=16, flags=NO_CACHE, runs=(TOGETHER,), spare_blocks=16, min_preemptions=4),
    Setting(
        name="block 16, small pool, priority, cache on",
        block_size=16,
        flags={"scheduling_policy": "priority"},
        runs=(Run(name="priorities", cached="shared", priorities=True),),
        spare_blocks=16,
        min_preemptions=4,
    ),
)
FULL_CROWD = (
    Setting(name="block 8, small pool", block_size=8, flags=NO_CACHE, runs=(TOGETHER,), spare_blocks=10, min_preemptions=8),
    Setting(
        name="block 8, small pool, budget 32, priority",
        block_size=8,
        flags=NO_CACHE | SMALL_STEPS | {"max_num_seqs": 32, "scheduling_policy": "priority"},
        runs=(BY_PRIORITY,),
        spare_blocks=10,
        min_preemptions=8,
    ),
    Setting(
        name="block 8, small pool, budget 32, cache on",
        block_size=8,
        flags=SMALL_STEPS | {"max_num_seqs": 32},
        runs=(Run(name="together", cached="shared"),),
        spare_blocks=10,
        min_preemptions=8,
    ),
)
