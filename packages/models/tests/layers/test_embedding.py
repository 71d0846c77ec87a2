"""Embedding and head, whole, tied and split by vocabulary."""

import torch

from octavo_models.layers import ParallelGroup, VocabularyEmbedding, VocabularyHead

DTYPE = torch.float32


def test_shards_sum_to_the_whole_embedding() -> None:
    whole = VocabularyEmbedding(10, 4, dtype=DTYPE)
    whole.weight.data.normal_()
    token_ids = torch.tensor([0, 4, 5, 9])
    terms = []
    for rank in range(2):
        shard = VocabularyEmbedding(10, 4, dtype=DTYPE, group=ParallelGroup(rank, 2))
        shard.weight.data.copy_(whole.weight[rank * 5 : rank * 5 + 5])
        terms.append(shard(token_ids))
    assert torch.equal(terms[0] + terms[1], whole(token_ids))


def test_a_tied_head_holds_the_parameter_of_the_embedding() -> None:
    embedding = VocabularyEmbedding(10, 4, dtype=DTYPE)
    head = VocabularyHead(embedding, tied=True, dtype=DTYPE)
    assert head.weight is embedding.weight


def test_an_untied_head_has_its_own() -> None:
    embedding = VocabularyEmbedding(10, 4, dtype=DTYPE)
    head = VocabularyHead(embedding, tied=False, dtype=DTYPE)
    head.weight.data.normal_()
    embedding.weight.data.zero_()
    hidden = torch.randn(3, 4)
    torch.testing.assert_close(head(hidden), hidden @ head.weight.T)
