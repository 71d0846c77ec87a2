"""Conformance suites for what plugins register, free of torch; the built-ins pass them too.

@pytest.mark.parametrize("case", POLICY_CASES, ids=str)
def test_conforms(case):
    check_scheduler_policy(ShortestPromptFirst, case)

Every check raises AssertionError with what is wrong. Suites for models, samplers and logits processors are in `octavo_models.testing`,
for attention backends in `octavo_kernels.testing`.
"""

from octavo.testing.conformance.command import check_command
from octavo.testing.conformance.config_reader import check_config_reader
from octavo.testing.conformance.executor import EXECUTOR_CASES, ExecutorCase, check_executor
from octavo.testing.conformance.model_runner import RUNNER_CASES, RunnerCase, check_runner
from octavo.testing.conformance.model_source import check_missing_model, check_model_source
from octavo.testing.conformance.plugin import check_plugin
from octavo.testing.conformance.policy import POLICY_CASES, PolicyCase, check_scheduler_policy

__all__ = [
    "EXECUTOR_CASES",
    "POLICY_CASES",
    "RUNNER_CASES",
    "ExecutorCase",
    "PolicyCase",
    "RunnerCase",
    "check_command",
    "check_config_reader",
    "check_executor",
    "check_missing_model",
    "check_model_source",
    "check_plugin",
    "check_runner",
    "check_scheduler_policy",
]
