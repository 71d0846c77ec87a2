"""Flags of `octavo serve` beside those of the engine, and the configuration that becomes of them."""

import math
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from octavo.config.checks import check_bytes, check_choice
from octavo.env import read_environment, split_names
from octavo.errors import ConfigurationError
from octavo.log import LEVELS
from octavo.log_formats import JSON, TEXT
from octavo_server.config import CorsConfig, ServerConfig, TlsConfig
from octavo_server.keys import collect_keys
from octavo_server.loops import LOOPS
from octavo_server.metrics.definitions import check_prefix

_LARGEST_PORT = 65535
_HIGHEST_CERT_REQS = 2


def _option(panel: str, *names: str, text: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def _address(*names: str, text: str, **more: Any) -> Any:
    return _option("Address", *names, text=text, **more)


def _requests(*names: str, text: str, **more: Any) -> Any:
    return _option("Requests", *names, text=text, **more)


def _security(*names: str, text: str, **more: Any) -> Any:
    return _option("Security", *names, text=text, show_default=more.pop("show_default", False), **more)


def _process(*names: str, text: str, **more: Any) -> Any:
    return _option("Processes", *names, text=text, **more)


def _log(*names: str, text: str, **more: Any) -> Any:
    return _option("Log", *names, text=text, **more)


_PS = "as `ps` shows it to everybody on this machine, prefer --api-key-file or OCTAVO_API_KEY"

Host = Annotated[str, _address("--host", text="address to listen on", metavar="ADDRESS")]
Port = Annotated[int, _address("--port", text="port to listen on; 0: any that is free", min=0, max=_LARGEST_PORT, metavar="PORT")]
Uds = Annotated[str | None, _address("--uds", text="Unix socket to listen on instead", metavar="PATH", show_default=False)]
RootPath = Annotated[str, _address("--root-path", text="path under which a proxy serves this server", metavar="PATH", show_default=False)]
SslKeyfile = Annotated[str | None, _address("--ssl-keyfile", text="key of the certificate, PEM", metavar="FILE", show_default=False)]
SslCertfile = Annotated[str | None, _address("--ssl-certfile", text="certificate, PEM: serve HTTPS", metavar="FILE", show_default=False)]
SslCaCerts = Annotated[
    str | None, _address("--ssl-ca-certs", text="certificates to check clients with", metavar="FILE", show_default=False)
]
SslCertReqs = Annotated[
    int,
    _address(
        "--ssl-cert-reqs", text="certificates of clients: 0 none, 1 optional, 2 required", min=0, max=_HIGHEST_CERT_REQS, metavar="0|1|2"
    ),
]
SslCiphers = Annotated[str | None, _address("--ssl-ciphers", text="ciphers, as OpenSSL names them", metavar="LIST", show_default=False)]

ServedModelName = Annotated[
    list[str] | None,
    _requests(
        "--served-model-name",
        text="name that requests give; the first is in answers; may be repeated; default: the model's own",
        metavar="NAME",
        show_default=False,
    ),
]
MaxQueuedReqs = Annotated[
    int | None,
    _requests(
        "--max-queued-requests",
        "--max-num-queued-reqs",
        text="requests that may wait, more get 503; default: no limit",
        min=0,
        metavar="COUNT",
        show_default=False,
    ),
]
MaxQueuedTokens = Annotated[
    int | None,
    _requests(
        "--max-queued-tokens",
        "--max-num-queued-tokens",
        text="prompt tokens that may wait, more get 503; default: no limit",
        min=0,
        metavar="COUNT",
        show_default=False,
    ),
]
MaxRequestBytes = Annotated[str, _requests("--max-request-bytes", text="longest body of a request", metavar="SIZE")]
MaxConnections = Annotated[
    int, _requests("--max-connections", text="connections to an API process; idle ones give way to new ones", min=1, metavar="COUNT")
]
MaxPrompts = Annotated[
    int, _requests("--max-prompts-per-request", text="sequences that a request may ask for: n for each prompt", min=1, metavar="COUNT")
]
TrustTemplate = Annotated[
    bool, _requests("--trust-request-chat-template", text="take chat templates from requests; a template is a program that takes time")
]
KeepAlive = Annotated[
    float, _requests("--sse-keep-alive-interval", text="silent streams get a comment so often; 0: never", min=0, metavar="SECONDS")
]
DisableDocs = Annotated[bool, _requests("--disable-fastapi-docs", text="serve neither /docs nor /openapi.json")]

ApiKey = Annotated[
    list[str] | None, _security("--api-key", text=f"key that requests must bring; may be repeated, or hold commas; {_PS}", metavar="KEY")
]
ApiKeyFile = Annotated[Path | None, _security("--api-key-file", text="file of keys, one a line: KEY, or NAME: KEY", metavar="FILE")]
ProtectMetrics = Annotated[bool, _security("--protect-metrics", text="/metrics needs a key, too")]
MetricsPrefix = Annotated[
    str, _log("--metrics-prefix", text="of all names on /metrics; vllm: for dashboards made for that", metavar="PREFIX")
]
AllowedOrigins = Annotated[
    list[str] | None, _security("--allowed-origins", text="origins whose pages may ask (CORS); may be repeated; *: all", metavar="ORIGIN")
]
AllowedMethods = Annotated[
    list[str] | None, _security("--allowed-methods", text="methods that they may use; default: all", metavar="METHOD")
]
AllowedHeaders = Annotated[
    list[str] | None, _security("--allowed-headers", text="headers that they may send; default: all", metavar="HEADER")
]
AllowCredentials = Annotated[bool, _security("--allow-credentials", text="they may send cookies and keys")]

ApiServerCount = Annotated[int, _process("--api-server-count", "-asc", text="processes that speak HTTP", min=1, metavar="COUNT")]
ShutdownTimeout = Annotated[
    float, _process("--shutdown-timeout", text="seconds that running requests get after SIGTERM", min=0, metavar="SECONDS")
]
RestartEngine = Annotated[bool, _process("--restart-engine", text="start another engine where one is lost, instead of ending")]
Loop = Annotated[str, _process("--loop", text="auto, uvloop or asyncio", metavar="NAME")]

LogLevel = Annotated[str, _log("--log-level", text=", ".join(LEVELS), metavar="LEVEL")]
LogFormat = Annotated[str, _log("--log-format", text="text or json", metavar="NAME")]
AccessLog = Annotated[bool, _log("--access-log", text="a line a request")]


def server_config(
    *,
    api_key: Sequence[str] | None,
    api_key_file: Path | None,
    served_model_name: Sequence[str] | None,
    max_request_bytes: str,
    tls: TlsConfig | None,
    cors: CorsConfig,
    log_level: str,
    log_format: str,
    loop: str,
    root_path: str,
    metrics_prefix: str,
    shutdown_timeout_s: float,
    sse_keepalive_s: float,
    **same: Any,
) -> ServerConfig:
    """The configuration that flags ask for; those that need no look are taken over under their names.

    Raises:
        ConfigurationError: one of them cannot be.
    """
    return ServerConfig(
        api_keys=collect_keys(api_key or (), api_key_file, read_environment().api_keys),
        served_model_names=_names(served_model_name),
        max_request_bytes=check_bytes("--max-request-bytes", max_request_bytes),
        tls=_checked(tls),
        cors=cors,
        log_level=check_choice("--log-level", log_level, LEVELS),
        log_format=check_choice("--log-format", log_format, (TEXT, JSON)),
        loop=check_choice("--loop", loop, LOOPS),
        root_path=_path(root_path),
        metrics_prefix=check_prefix(metrics_prefix),
        shutdown_timeout_s=_seconds("--shutdown-timeout", shutdown_timeout_s),
        sse_keepalive_s=_seconds("--sse-keep-alive-interval", sse_keepalive_s),
        **same,
    )


def cors_config(
    origins: Sequence[str] | None, methods: Sequence[str] | None, headers: Sequence[str] | None, *, credentials: bool
) -> CorsConfig:
    """What flags say of CORS; each may hold commas."""
    return CorsConfig(
        origins=_names(origins), methods=_names(methods) or ("*",), headers=_names(headers) or ("*",), credentials=credentials
    )


def tls_config(certificate: str | None, key: str | None, *, authorities: str | None, client: int, ciphers: str | None) -> TlsConfig | None:
    """What flags say of TLS; None without any. Raises `ConfigurationError` for flags that do nothing without another one."""
    given = {"--ssl-keyfile": key, "--ssl-ca-certs": authorities, "--ssl-cert-reqs": client or None, "--ssl-ciphers": ciphers}
    names = [name for name, value in given.items() if value is not None]
    if certificate is None:
        if names:
            raise ConfigurationError(f"{', '.join(names)} without a certificate: give --ssl-certfile, too")
        return None
    if client and authorities is None:
        raise ConfigurationError(f"--ssl-cert-reqs {client} needs what clients' certificates are checked with: give --ssl-ca-certs, too")
    if authorities is not None and not client:
        raise ConfigurationError("--ssl-ca-certs without --ssl-cert-reqs checks nobody: give --ssl-cert-reqs 1 or 2, too")
    return TlsConfig(certificate=certificate, key=key, client_authorities=authorities, client_certificates=client, ciphers=ciphers)


def _checked(tls: TlsConfig | None) -> TlsConfig | None:
    """The same, once its files were read. Raises `ConfigurationError` where they cannot be."""
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    holds_both = "" if tls.key else "; without --ssl-keyfile the key is in that file, too"
    with _refusing(f"--ssl-certfile {tls.certificate}" + (f" with --ssl-keyfile {tls.key}" if tls.key else ""), holds_both):
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    if tls.client_authorities is not None:
        with _refusing(f"--ssl-ca-certs {tls.client_authorities}"):
            context.load_verify_locations(tls.client_authorities)
    if tls.ciphers is not None:
        with _refusing(f"--ssl-ciphers {tls.ciphers!r}"):
            context.set_ciphers(tls.ciphers)
    return tls


@contextmanager
def _refusing(flags: str, hint: str = "") -> Iterator[None]:
    """What OpenSSL says becomes a refusal of some flags. It says of files that are no PEM only that."""
    try:
        yield
    except ssl.SSLError as error:
        raise ConfigurationError(f"{flags} cannot be used: {' '.join(map(str, error.args[-1:]))}{hint}") from error
    except OSError as error:
        raise ConfigurationError(f"{flags} cannot be read: {error.strerror}{hint}") from error


def _no_password() -> str:
    raise ConfigurationError("the key of --ssl-certfile is encrypted, and there is nobody to ask for its passphrase: decrypt it")


def _names(given: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(name for text in given or () for name in split_names(text))


def _seconds(name: str, value: float) -> float:
    if math.isinf(value):
        raise ConfigurationError(f"{name} {value} is no number of seconds: give a large one, such as 86400 for a day")
    return value


def _path(root_path: str) -> str:
    path = root_path.rstrip("/")
    if path and not path.startswith("/"):
        raise ConfigurationError(f"--root-path {root_path!r} does not start with a slash: give a path such as /octavo")
    return path
