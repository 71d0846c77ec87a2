"""What this package registers with Octavo. Imports no torch: names stand for modules that are loaded where they are chosen."""

from typing import Protocol

import pluggy

hookimpl = pluggy.HookimplMarker("octavo")


class BackendRegistry(Protocol):
    """The part of Octavo's registry that is used here."""

    def register(self, name: str, value: object) -> None:
        """Make a name known."""


@hookimpl
def octavo_register_attention_backends(registry: BackendRegistry) -> None:
    """Attention in plain torch and in C++."""
    registry.register("sdpa", "octavo_kernels.attention.sdpa:SdpaAttention")
    registry.register("cpu", "octavo_kernels.attention.cpu:CpuAttention")
