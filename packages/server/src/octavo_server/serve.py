"""`octavo serve`: from the command line to a server that has ended.

The port is taken before anything that takes time is imported or started.
"""

import asyncio
import logging
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.engine.folder import private_folder
from octavo_server import serve_flags as flags
from octavo_server.launch import Launch
from octavo_server.listener import close_listener, describe, open_listener
from octavo_server.logs import configure_server_logging
from octavo_server.loops import loop_factory
from octavo_server.serve_help import ServeCommand

if TYPE_CHECKING:
    from octavo_server.engines import OwnEngine
    from octavo_server.stop import StopSignal

_log = logging.getLogger(__name__)

application = typer.Typer(add_completion=False, rich_markup_mode=None)


@application.command("serve", cls=ServeCommand)
@with_engine_flags
def serve_command(
    engine: EngineFlags,
    target: Annotated[str | None, typer.Argument(metavar="MODEL", show_default=False, help="as --model")] = None,
    host: flags.Host = "0.0.0.0",  # noqa: S104 - a server is there to be reached
    port: flags.Port = 8000,
    uds: flags.Uds = None,
    root_path: flags.RootPath = "",
    ssl_keyfile: flags.SslKeyfile = None,
    ssl_certfile: flags.SslCertfile = None,
    ssl_ca_certs: flags.SslCaCerts = None,
    ssl_cert_reqs: flags.SslCertReqs = 0,
    ssl_ciphers: flags.SslCiphers = None,
    served_model_name: flags.ServedModelName = None,
    max_queued_requests: flags.MaxQueuedReqs = None,
    max_queued_tokens: flags.MaxQueuedTokens = None,
    max_request_bytes: flags.MaxRequestBytes = "32MiB",
    max_connections: flags.MaxConnections = 10_000,
    max_prompts_per_request: flags.MaxPrompts = 1024,
    trust_request_chat_template: flags.TrustTemplate = False,
    sse_keep_alive_interval: flags.KeepAlive = 15.0,
    disable_fastapi_docs: flags.DisableDocs = False,
    api_key: flags.ApiKey = None,
    api_key_file: flags.ApiKeyFile = None,
    protect_metrics: flags.ProtectMetrics = False,
    metrics_prefix: flags.MetricsPrefix = "octavo:",
    allowed_origins: flags.AllowedOrigins = None,
    allowed_methods: flags.AllowedMethods = None,
    allowed_headers: flags.AllowedHeaders = None,
    allow_credentials: flags.AllowCredentials = False,
    api_server_count: flags.ApiServerCount = 1,
    shutdown_timeout: flags.ShutdownTimeout = 10.0,
    restart_engine: flags.RestartEngine = False,
    loop: flags.Loop = "auto",
    log_level: flags.LogLevel = "info",
    log_format: flags.LogFormat = "text",
    access_log: flags.AccessLog = False,
) -> None:
    """Serve a model over HTTP, with OpenAI's API.

    SIGTERM or Ctrl-C: running requests are answered, new ones refused; a second one ends the server at once.
    """
    config = flags.server_config(
        host=host,
        port=port,
        uds=uds,
        root_path=root_path,
        tls=flags.tls_config(ssl_certfile, ssl_keyfile, authorities=ssl_ca_certs, client=ssl_cert_reqs, ciphers=ssl_ciphers),
        served_model_name=served_model_name,
        max_queued_requests=max_queued_requests,
        max_queued_tokens=max_queued_tokens,
        max_request_bytes=max_request_bytes,
        max_connections=max_connections,
        max_prompts_per_request=max_prompts_per_request,
        trust_request_chat_template=trust_request_chat_template,
        sse_keepalive_s=sse_keep_alive_interval,
        docs=not disable_fastapi_docs,
        api_key=api_key,
        api_key_file=api_key_file,
        protect_metrics=protect_metrics,
        metrics_prefix=metrics_prefix,
        cors=flags.cors_config(allowed_origins, allowed_methods, allowed_headers, credentials=allow_credentials),
        api_server_count=api_server_count,
        shutdown_timeout_s=shutdown_timeout,
        restart_engine=restart_engine,
        loop=loop,
        log_level="debug" if engine.debug else log_level,
        log_format=log_format,
        access_log=access_log,
    )
    options = replace(engine.options, model=target or engine.options.model)
    serve(Launch(config=config, options=options, plugins_allow=engine.plugins_allow, plugins_block=engine.plugins_block))


def serve(launch: Launch) -> None:
    """Serve until a signal comes or something fails.

    Raises:
        OctavoError: what failed; nothing runs any more.
    """
    config = launch.config
    configure_server_logging(config)
    factory = loop_factory(config.loop)
    listener = open_listener(config)
    try:
        _log.info("listening on %s", describe(listener, encrypted=config.tls is not None))
        with private_folder() as folder, asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_run(launch, listener, folder))
    finally:
        close_listener(listener, config)


async def _run(launch: Launch, listener: socket.socket, folder: Path) -> None:
    start = time.perf_counter()
    from octavo_server.engines import OwnEngine
    from octavo_server.stop import StopSignal

    engine = OwnEngine(launch, folder)

    def abandon() -> None:
        engine.kill()
        shutil.rmtree(folder, ignore_errors=True)
        close_listener(listener, launch.config)

    stop = StopSignal(abandon)
    stop.listen()
    try:
        if launch.config.api_server_count == 1:
            await _serve_here(launch, listener, engine, folder, stop)
        else:
            await _supervise(launch, listener, engine, folder, stop)
    finally:
        await engine.close()
        _log.info("ended after %.1f s", time.perf_counter() - start)


async def _serve_here(launch: Launch, listener: socket.socket, engine: "OwnEngine", folder: Path, stop: "StopSignal") -> None:
    start = time.perf_counter()
    engine.start()
    from octavo_server.api_process import ApiProcess

    process = ApiProcess(launch, listener, engine, folder=folder, client=0, stop=stop)
    _log.info("start-up: the application took %.2f s", time.perf_counter() - start)
    await process.run()


async def _supervise(launch: Launch, listener: socket.socket, engine: "OwnEngine", folder: Path, stop: "StopSignal") -> None:
    from octavo_server.supervisor import Supervisor

    metrics_folder = folder / "metrics"
    metrics_folder.mkdir()
    await Supervisor(launch, listener, engine, folder=folder, stop=stop, metrics_folder=metrics_folder).run()
