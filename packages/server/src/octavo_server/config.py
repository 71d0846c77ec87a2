"""Flags of the server, beside those of the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TlsConfig:
    """How connections are encrypted.

    Attributes:
        certificate: file with the server's certificate and those above it.
        key: file with its key; None: it is in the certificate's file.
        client_authorities: file with the certificates that clients' are checked with.
        client_certificates: 0: none is asked for, 1: optional, 2: required (`ssl.CERT_*`).
        ciphers: in OpenSSL's notation; None: its defaults.
    """

    certificate: str
    key: str | None = None
    client_authorities: str | None = None
    client_certificates: int = 0
    ciphers: str | None = None


@dataclass(frozen=True, kw_only=True)
class CorsConfig:
    """What scripts of web pages from elsewhere may do. Without origins: nothing.

    Attributes:
        origins: that may ask; "*" is all of them.
        methods, headers: that they may use; "*" is all of them.
        credentials: whether cookies and keys may come along.
    """

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("*",)
    headers: tuple[str, ...] = ("*",)
    credentials: bool = False


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """What `octavo serve` was told about serving.

    Attributes:
        host, port: where to listen.
        uds: path of a Unix socket to listen on instead.
        served_model_names: names that requests may give; the first is the one in answers. Empty: the name of the model.
        api_keys: name of a tenant to its key; empty: no key is needed.
        protect_metrics: whether `/metrics` needs a key, too.
        metrics_prefix: of the names of all metrics.
        max_request_bytes: a longer body is refused.
        max_json_depth: arrays and objects that may lie within each other; a deeper body is refused.
        max_connections: clients' connections to one process; of more, idle ones give way, and others are refused.
        max_prompts_per_request: sequences that one request may ask for, `n` for each of its prompts.
        trust_request_chat_template: take chat templates, which are programs, from requests.
        sse_keepalive_s: streams that are silent for so long get a comment; 0: they stay silent.
        max_queued_requests, max_queued_tokens: requests, and tokens of their prompts, that may wait; more are refused. None: no limit.
        shutdown_timeout_s: how long running streams may go on after SIGTERM.
        api_server_count: processes that speak HTTP.
        restart_engine: start another engine where one is lost, instead of ending.
        access_log: a line a request.
        log_level: one of `octavo.log.LEVELS`.
        log_format: "text" or "json".
        loop: "auto", "uvloop" or "asyncio".
        docs: whether `/docs` and `/openapi.json` are served.
        root_path: under which a proxy serves this server.
        tls: None: plain HTTP.
        cors: for scripts of web pages.
    """

    host: str = "0.0.0.0"  # noqa: S104 (a server is there to be reached)
    port: int = 8000
    uds: str | None = None
    served_model_names: tuple[str, ...] = ()
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    protect_metrics: bool = False
    metrics_prefix: str = "octavo:"
    max_request_bytes: int = 32 * 2**20
    max_json_depth: int = 64
    max_connections: int = 10_000
    max_prompts_per_request: int = 1024
    trust_request_chat_template: bool = False
    sse_keepalive_s: float = 15.0
    max_queued_requests: int | None = None
    max_queued_tokens: int | None = None
    shutdown_timeout_s: float = 10.0
    api_server_count: int = 1
    restart_engine: bool = False
    access_log: bool = False
    log_level: str = "info"
    log_format: str = "text"
    loop: str = "auto"
    docs: bool = True
    root_path: str = ""
    tls: TlsConfig | None = None
    cors: CorsConfig = CorsConfig()
