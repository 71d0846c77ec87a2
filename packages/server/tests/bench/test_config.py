import math
from typing import Any

import pytest

from octavo.errors import ConfigurationError
from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.workload import WorkloadConfig


@pytest.mark.parametrize("base_url", ["http://host:8000", "http://host:8000/", "http://host:8000/v1", "http://host:8000/v1/"])
def test_the_address_may_have_the_path_of_the_api(base_url: str) -> None:
    assert BenchmarkConfig(base_url=base_url).url == "http://host:8000/v1/completions"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"base_url": "host:8000"}, "base_url 'host:8000'"),
        ({"base_url": "http://"}, "base_url"),
        ({"base_url": "http://host:99999"}, "base_url"),
        ({"base_url": "http://ho st"}, "base_url"),
        ({"endpoint": "embeddings"}, "there are completions, chat"),
        ({"arrival": "uniform"}, "arrival 'uniform'"),
        ({"api_key": "a\nb"}, "api_key"),
        ({"request_rate": 0}, "request_rate 0"),
        ({"request_rate": math.nan}, "request_rate nan"),
        ({"burstiness": -1}, "burstiness -1"),
        ({"timeout_s": 0}, "timeout 0"),
        ({"max_concurrency": 0}, "max_concurrency 0"),
        ({"ramp_up_s": 5}, "ramp_up has nothing to grow"),
        ({"endpoint": "chat", "prompt_form": "ids"}, "chats are text"),
        ({"workload": WorkloadConfig(kind="sonnet")}, "workload 'sonnet'"),
        ({"workload": WorkloadConfig(num_prompts=0)}, "num_prompts 0"),
        ({"workload": WorkloadConfig(range_ratio=1)}, "range_ratio 1"),
        ({"workload": WorkloadConfig(prefix_len=8)}, "shared-prefix"),
        ({"workload": WorkloadConfig(kind="jsonl")}, "go together"),
        ({"workload": WorkloadConfig(dataset="x")}, "go together"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        BenchmarkConfig(**values)
