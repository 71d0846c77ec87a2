"""Which attention backend serves a layer: a pure choice, with its reason."""

from collections.abc import Mapping

import torch

from octavo_kernels.attention.backend import AttentionBackend, AttentionSpec

AUTO = "auto"
PREFERENCES = {"cpu": ("cpu", "sdpa")}
"""By device type, the backends that "auto" tries in order."""
EVERYWHERE = ("sdpa",)


def choose_attention_backend(
    requested: str,
    candidates: Mapping[str, type[AttentionBackend]],
    spec: AttentionSpec,
    block_size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[str, str]:
    """The name of a backend and why it was chosen.

    Args:
        requested: a name, or "auto".
        candidates: backends by name.
        spec, block_size, dtype, device: what has to be served.

    Raises:
        ValueError: the name is unknown or cannot serve this, or nothing can; with the reasons and what would work.
    """
    refusals = {name: candidates[name].unsupported(spec, block_size=block_size, dtype=dtype, device=device) for name in sorted(candidates)}
    able = [name for name, refusal in refusals.items() if refusal is None]
    if requested == AUTO:
        return _choose_automatically(refusals, able, device)
    if requested not in refusals:
        raise ValueError(f"unknown attention backend {requested!r}: there are {', '.join((AUTO, *refusals))}")
    if (refusal := refusals[requested]) is not None:
        raise ValueError(f"attention backend {requested!r} cannot serve this: {refusal}; {_what_works(able)}")
    return requested, "requested"


def _choose_automatically(refusals: Mapping[str, str | None], able: list[str], device: torch.device) -> tuple[str, str]:
    passed: list[str] = []
    for name in PREFERENCES.get(device.type, EVERYWHERE):
        if name in able:
            reason = f"the first choice on {device.type}" if not passed else "; ".join(passed)
            return name, reason
        passed.append(f"{name!r} is not used: {refusals.get(name) or 'it is not registered'}")
    raise ValueError(f"no attention backend is chosen for {device.type} by itself: {'; '.join(passed)}; {_what_works(able)}")


def _what_works(able: list[str]) -> str:
    return f"these can: {', '.join(able)}" if able else "none of the registered backends can"
