"""What the core itself registers, through the same hooks as every plugin."""

from typing import TYPE_CHECKING

from octavo.plugins.hookspecs import hookimpl
from octavo.plugins.registry import Registry

if TYPE_CHECKING:
    from octavo.engine.executor import Executor
    from octavo.scheduler.policy import SchedulerPolicy


@hookimpl
def octavo_register_executors(registry: "Registry[type[Executor]]") -> None:
    registry.register("inprocess", "octavo.engine.inprocess:InProcessExecutor")
    registry.register("multiprocess", "octavo.engine.multiprocess:MultiprocessExecutor")


@hookimpl
def octavo_register_scheduler_policies(registry: "Registry[type[SchedulerPolicy]]") -> None:
    registry.register("fcfs", "octavo.scheduler.policy:FirstComeFirstServed")
    registry.register("priority", "octavo.scheduler.policy:Priority")
