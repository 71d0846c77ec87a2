"""The real engine in a process of its own gives what the offline facade gives."""

import asyncio
from pathlib import Path

from octavo import LLM, AsyncLLM, EngineOptions, SamplingParams
from octavo.engine.folder import private_folder
from octavo.engine.process import EngineProcess
from octavo_models.testing import write_tiny_llama

PARAMS = [
    SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, logprobs=2),
    SamplingParams(temperature=1, seed=5, max_tokens=12, ignore_eos=True, n=2),
    SamplingParams(max_tokens=0, prompt_logprobs=1),
]


def test_an_engine_process_answers_as_the_offline_facade_does(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    prompts = [{"prompt_token_ids": list(range(3, 3 + length))} for length in (5, 20, 9)]
    with LLM(str(tmp_path), num_blocks=64) as offline:
        expected = [offline.generate(prompt, params, use_tqdm=False)[0] for prompt, params in zip(prompts, PARAMS, strict=True)]

    async def main() -> None:
        options = EngineOptions(model=str(tmp_path), num_blocks=64)
        with private_folder() as folder:
            process = EngineProcess.start(options, folder=folder)
            try:
                async with await AsyncLLM.connect(options, folder, process=process) as llm:
                    for prompt, params, other in zip(prompts, PARAMS, expected, strict=True):
                        output = await llm.generate(prompt, params)
                        assert output.prompt_logprobs == other.prompt_logprobs
                        assert output.outputs == other.outputs
                assert process.terminate() == 0
            finally:
                process.kill()

    asyncio.run(main())
