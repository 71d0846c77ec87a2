"""Conformance suites for models, samplers and logits processors, for their authors to run; the built-ins pass them too.

@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return read_model(write_checkpoint(tmp_path_factory.mktemp("tiny")), MyModel, reader=read_config)

@pytest.mark.parametrize("case", MODEL_CASES, ids=str)
def test_the_model_conforms(model, case):
    check_model(model, case)

@pytest.mark.parametrize("case", SAMPLER_CASES, ids=str)
def test_the_sampler_conforms(case):
    check_sampler(MySampler, case)

def test_the_processor_conforms():
    check_logits_processor(MyProcessor, {"strength": 2.0})
    check_bad_argument(MyProcessor, "strong")
"""

from octavo_models.testing.model_conformance import MODEL_CASES, check_model
from octavo_models.testing.model_under_test import ModelUnderTest, chunked_logits, read_model
from octavo_models.testing.processor_conformance import check_bad_argument, check_logits_processor
from octavo_models.testing.sampler_conformance import FILTER_CASES, SAMPLER_CASES, check_sampler, sampling_batch

__all__ = [
    "FILTER_CASES",
    "MODEL_CASES",
    "SAMPLER_CASES",
    "ModelUnderTest",
    "check_bad_argument",
    "check_logits_processor",
    "check_model",
    "check_sampler",
    "chunked_logits",
    "read_model",
    "sampling_batch",
]
