"""Logging of the server: lines with a time on standard error, each with the id of the request that it is about."""

import logging
from contextvars import ContextVar

from octavo.log import configure_logging
from octavo.log_formats import REQUEST_ID as ATTRIBUTE
from octavo_server.config import ServerConfig

REQUEST_ID: ContextVar[str] = ContextVar("octavo_request_id", default="")
"""Of the request that the running task answers; "" outside of requests."""


def configure_server_logging(config: ServerConfig) -> None:
    """Log as the flags of the server say; calling it again replaces the earlier call."""
    configure_logging(config.log_level, log_format=config.log_format)
    for handler in logging.getLogger().handlers:
        handler.addFilter(name_request)


def name_request(record: logging.LogRecord) -> bool:
    """A filter that drops nothing, but writes into a record which request it is about."""
    if request_id := REQUEST_ID.get():
        setattr(record, ATTRIBUTE, request_id)
    return True
