import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import zmq

from octavo import AsyncLLM, EngineOptions
from octavo.engine.folder import private_folder
from octavo.engine.process import EngineProcess
from octavo.engine.server import EngineServer
from octavo.engine.sockets import listen
from octavo.testing.llm import FakeLLM, fake_llm
from octavo.testing.served import write_fake_model, write_fake_plugin

RUNNERS = '''
import time
from octavo.errors import CheckpointError
from octavo.testing.runner import FakeRunner

class Paced(FakeRunner):
    """A step takes a millisecond, so that an endless request is one, and the process leaves the machine to others."""
    def execute(self, plan):
        time.sleep(0.001)
        return super().execute(plan)

class Damaged(FakeRunner):
    def load(self):
        raise CheckpointError("shard 2 of 3 is missing")

class Failing(FakeRunner):
    def execute(self, plan):
        if plan.step_id == 5:
            raise RuntimeError("the device is gone")
        return super().execute(plan)

class Hanging(FakeRunner):
    def load(self):
        time.sleep(60)
'''
CONTEXT = 20_000


@dataclass(frozen=True)
class Site:
    """A folder where a fake model and the plugin that runs it are installed, and a private one for sockets."""

    model: Path
    folder: Path

    def options(self, **flags: Any) -> EngineOptions:
        return EngineOptions(**{"model": str(self.model), "runner": "paced", "num_blocks": 5000, "seed": 1, **flags})

    @contextmanager
    def process(self, **flags: Any) -> Iterator[EngineProcess]:
        process = EngineProcess.start(self.options(**flags), folder=self.folder, plugins_allow=("served",), log_level="error")
        try:
            yield process
        finally:
            process.kill()

    async def connect(self, process: EngineProcess | None = None, *, client: int = 0, **flags: Any) -> AsyncLLM:
        return await AsyncLLM.connect(self.options(**flags), self.folder, client=client, plugins_allow=("served",), process=process)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("served")
    installed = base / "site"
    installed.mkdir()
    write_fake_plugin(installed, runners=RUNNERS, names=("Paced", "Damaged", "Failing", "Hanging"))
    with pytest.MonkeyPatch.context() as patch, private_folder() as folder:
        patch.syspath_prepend(str(installed))
        yield Site(write_fake_model(base, max_position_embeddings=CONTEXT), folder)
    for name in [name for name in sys.modules if name.startswith("octavo_served")]:
        del sys.modules[name]


@dataclass
class ServedHere:
    """An engine's server in a thread of this process."""

    server: EngineServer
    fake: FakeLLM
    folder: Path
    context: "zmq.Context[zmq.Socket[bytes]]" = field(default_factory=zmq.Context)


@pytest.fixture
def serve_here() -> Iterator[Callable[..., ServedHere]]:
    """Starts a server whose steps take a millisecond; the keywords are those of `fake_llm`."""
    with ExitStack() as stack:

        def start(*, silent_beats: int = 20, step_s: float = 0.001, load: Callable[[], Any] | None = None, **options: Any) -> ServedHere:
            folder = stack.enter_context(private_folder())
            fake = fake_llm(**{"max_model_len": CONTEXT, "num_blocks": 5000, **options})
            fake.engine.executor.device.step_s = step_s
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            socket = listen(context, folder, 0)
            server = EngineServer(socket, silent_beats=silent_beats)
            engine = fake.llm.engine
            thread = threading.Thread(target=server.run, args=(load or (lambda: (engine.client, engine.info, ())),))
            thread.start()

            def end() -> None:
                server.stop()
                thread.join(30)
                assert not thread.is_alive()
                socket.close(0)
                context.term()

            stack.callback(end)
            return ServedHere(server, fake, folder, context)

        yield start
