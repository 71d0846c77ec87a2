"""Layers that models are made of: for inference only, with weights that are plain parameters and can be passed in from outside.

Shape legend: N rows (tokens), E hidden size, H query heads, G KV heads, D head size, V vocabulary, I and O inputs and outputs.
"""

from octavo_models.layers.embedding import VocabularyEmbedding, VocabularyHead
from octavo_models.layers.linear import Linear, LinearMethod, UnquantizedLinear
from octavo_models.layers.mlp import FeedForward, GatedMLP
from octavo_models.layers.moe import MixtureOfExperts
from octavo_models.layers.norm import RMSNorm
from octavo_models.layers.parallel import SINGLE, ParallelGroup, Part, WeightLayout
from octavo_models.layers.rotary import rotary_table, rotate

__all__ = [
    "SINGLE",
    "FeedForward",
    "GatedMLP",
    "Linear",
    "LinearMethod",
    "MixtureOfExperts",
    "ParallelGroup",
    "Part",
    "RMSNorm",
    "UnquantizedLinear",
    "VocabularyEmbedding",
    "VocabularyHead",
    "WeightLayout",
    "rotary_table",
    "rotate",
]
