from octavo.plugins.check import check_names
from octavo.plugins.registries import Registries
from octavo.scheduler.policy import FirstComeFirstServed


def test_names_that_resolve_to_their_kind_are_fine() -> None:
    registries = Registries()
    registries.scheduler_policies.register("text", "octavo.scheduler.policy:Priority")
    registries.scheduler_policies.register("class", FirstComeFirstServed)
    registries.commands.register("greet", "builtins:print")
    assert check_names(registries) == ()


def test_every_fault_is_reported_with_its_plugin() -> None:
    registries = Registries()
    registries.models.owned_by("one").register("ghost", "no_such_module:Model")
    registries.scheduler_policies.owned_by("two").register("path", "pathlib:PurePath")
    registries.samplers.owned_by("three").register("number", "math:pi")
    registries.commands.owned_by("four").register("number", "math:pi")
    failures = check_names(registries)
    assert {(failure.registry, failure.name, failure.plugin) for failure in failures} == {
        ("models", "ghost", "one"),
        ("scheduler_policies", "path", "two"),
        ("samplers", "number", "three"),
        ("commands", "number", "four"),
    }
    assert any("does not extend octavo.scheduler.policy.SchedulerPolicy" in failure.error for failure in failures)
