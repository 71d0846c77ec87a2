"""A conformance suite for attention backends, for their authors to run:

@pytest.mark.parametrize("case", CONFORMANCE_CASES, ids=str)
def test_conforms(case):
    check_attention(MyBackend, case)
"""

from octavo_kernels.testing.cases import CONFORMANCE_CASES, AttentionCase
from octavo_kernels.testing.conformance import check_attention
from octavo_kernels.testing.traffic import Traffic, TrafficStep

__all__ = ["CONFORMANCE_CASES", "AttentionCase", "Traffic", "TrafficStep", "check_attention"]
