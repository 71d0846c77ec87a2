"""Block formats against the `gguf` package's numpy decoders."""

import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize as reference
from gguf.quants import quantize

from octavo.errors import CheckpointError
from octavo_models.loading import dequantize as module
from octavo_models.loading.dequantize import check_supported, dequantize

SMALL_BLOCKS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
K_FORMATS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
UPPER_BYTES_OF_HALVES = {"Q4_0": [1], "Q4_1": [1, 3], "Q5_0": [1], "Q5_1": [1, 3], "Q8_0": [1]} | {
    "Q2_K": [81, 83], "Q3_K": [109], "Q4_K": [1, 3], "Q5_K": [1, 3], "Q6_K": [209]
}  # fmt: skip


@pytest.fixture(autouse=True, params=["C++", "Python"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each format is decoded by the library, and without it."""
    if request.param == "Python":
        monkeypatch.setattr(module, "load_native", lambda: None)
    elif module.load_native() is None:
        pytest.skip("octavo-kernels was built without a C++ compiler")


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of this test span chunks, the last one shorter."""
    monkeypatch.setattr(module, "_CHUNK_VALUES", 1024)


def random_blocks(type_name: str, rows: int, columns: int) -> np.ndarray:
    """Random bytes, but scales that are small numbers: the upper bytes of float16 are below the exponent of 1."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]
    blocks = np.random.default_rng(0).integers(0, 256, (rows, columns // elements, size), dtype=np.uint8)
    blocks[:, :, UPPER_BYTES_OF_HALVES[type_name]] &= 0x3B
    return blocks.reshape(rows, -1)


@pytest.mark.parametrize("type_name", SMALL_BLOCKS + K_FORMATS)
def test_random_blocks_decode_as_the_reference_does(type_name: str) -> None:
    raw = random_blocks(type_name, 5, 768)
    expected = torch.from_numpy(reference(raw, GGMLQuantizationType[type_name]))
    decoded = dequantize(torch.from_numpy(raw).flatten(), type_name, (5, 768), torch.float32)
    assert expected.isfinite().all()
    assert torch.equal(decoded.view(torch.int32), expected.view(torch.int32)), "also the signs of zeros"


@pytest.mark.parametrize("type_name", SMALL_BLOCKS)
def test_quantized_weights_come_back_within_the_step_of_their_format(type_name: str) -> None:
    weights = np.random.default_rng(1).standard_normal((7, 96)).astype(np.float32)
    raw = torch.from_numpy(quantize(weights, GGMLQuantizationType[type_name]))
    step = 8 / 2 ** (int(type_name[1]) - 1)
    torch.testing.assert_close(dequantize(raw, type_name, (7, 96), torch.float32), torch.from_numpy(weights), rtol=0, atol=step / 2)


@pytest.mark.parametrize("type_name", SMALL_BLOCKS + K_FORMATS)
def test_a_narrow_result_is_the_wide_one_rounded_once(type_name: str) -> None:
    raw = torch.from_numpy(random_blocks(type_name, 3, 256))
    wide = dequantize(raw, type_name, (3, 256), torch.float32)
    assert torch.equal(dequantize(raw, type_name, (3, 256), torch.bfloat16), wide.bfloat16())


@pytest.mark.parametrize(("type_name", "dtype"), [("F32", torch.float32), ("F16", torch.float16), ("BF16", torch.bfloat16)])
def test_plain_types_are_taken_as_they_are(type_name: str, dtype: torch.dtype) -> None:
    values = torch.randn(4, 6).to(dtype)
    assert torch.equal(dequantize(values.view(torch.uint8).flatten(), type_name, (4, 6), torch.float32), values.float())


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"'blk\.0\.attn_q\.weight' is stored as IQ2_XXS, which cannot be loaded"):
        check_supported("blk.0.attn_q.weight", "IQ2_XXS")
