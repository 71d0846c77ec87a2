"""How many threads torch computes with."""

import torch

from octavo.config.engine import Decision
from octavo.config.machine import read_machine
from octavo.env import environment_values


def choose_threads() -> Decision:
    """Torch's own choice, which follows OMP_NUM_THREADS and the cores it sees, cut to what affinity and quota leave."""
    own, usable = torch.get_num_threads(), read_machine().num_cpus
    if usable < own:
        return Decision(name="threads", value=str(usable), reason=f"CPUs that affinity and quota leave; torch would start {own}")
    if environment_values()["OMP_NUM_THREADS"]:
        return Decision(name="threads", value=str(own), reason=f"OMP_NUM_THREADS, with {usable} CPUs usable")
    return Decision(name="threads", value=str(own), reason=f"torch's choice, with {usable} CPUs usable")
