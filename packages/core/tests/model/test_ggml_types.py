import pytest

from octavo.model.ggml_types import GGML_TYPES


def test_types_agree_with_the_reference_package() -> None:
    constants = pytest.importorskip("gguf.constants")
    known = {kind.value: (kind.name, *constants.GGML_QUANT_SIZES[kind]) for kind in constants.GGMLQuantizationType}
    shared = GGML_TYPES.keys() & known.keys()
    assert len(shared) > 25
    assert {number: tuple(GGML_TYPES[number]) for number in shared} == {number: known[number] for number in shared}
