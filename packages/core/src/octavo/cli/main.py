"""`octavo`: what becomes of the errors of its commands.

Exit codes: 0; 1, it failed; 2, it was asked for something that cannot be (an unknown option, a value out of range, an impossible
prompt); 130, interrupted.

What takes long to import is imported where an interrupt is heard already.
"""

import atexit
import errno
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from octavo.cli.streams import open_missing_streams
from octavo.errors import ConfigurationError, InvalidRequestError, ModelNotFoundError, OctavoError, described

FAILED, USAGE, INTERRUPTED = 1, 2, 130
_OUTPUT_ERRORS = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}


def main() -> None:
    """Entry point of the program."""
    try:
        open_missing_streams()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process. What was registered for its end runs, but torch is not taken down piece by piece, which takes a second."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or FAILED
    atexit._run_exitfuncs()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. An error becomes one line on stderr, and a traceback before it with `--debug`."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str]) -> int:
    import typer

    from octavo.cli.application import build_application
    from octavo.cli.state import CommandLineState

    state = CommandLineState()
    try:
        result = typer.main.get_command(build_application()).main(
            args=list(arguments), prog_name="octavo", standalone_mode=False, obj=state
        )
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _silence_standard_output()
        return FAILED
    except SystemExit as end:
        return _code_of(end)
    # Not only an `Exception`: a panic of an extension is none, and this is the border: nothing above it could say more to the user.
    except BaseException as error:  # noqa: BLE001
        _report(error, with_traceback=state.debug)
        return _exit_code(error)
    return result if isinstance(result, int) else 0


def _report(error: BaseException, *, with_traceback: bool) -> None:
    """Say on stderr what went wrong; where that is full, the exit code says all."""
    _drop_what_cannot_be_written()
    if with_traceback:
        import traceback

        _say("".join(traceback.format_exception(error)).rstrip())
    _say(f"octavo: error: {_one_line(error)}")


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        return


def _code_of(end: SystemExit) -> int:
    """What the interpreter makes of it: a text goes to stderr and is a failure."""
    if isinstance(end.code, str):
        _say(end.code)
        return FAILED
    return end.code or 0


def _exit_code(error: BaseException) -> int:
    import typer

    if isinstance(error, typer.TyperException):
        return error.exit_code
    if isinstance(error, (ConfigurationError, InvalidRequestError)) and not isinstance(error, ModelNotFoundError):
        return USAGE
    return FAILED


def _one_line(error: BaseException) -> str:
    import typer

    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        message = error.format_message() + (f" (see '{context.command_path} --help')" if context is not None else "")
    elif isinstance(error, OctavoError):
        message = str(error)
    elif isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_ERRORS:
        # Commands say themselves which of the files that they write could not be.
        message = f"standard output cannot be written: {error.strerror}"
    else:
        message = f"{described(error)} (--debug shows where)"
    return " ".join(message.split())


def _drop_what_cannot_be_written() -> None:
    """Where standard output is what failed, do not let the interpreter fail again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence_standard_output()


def _silence_standard_output() -> None:
    """Give the interpreter somewhere to flush to when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
