import msgspec
import pytest

from octavo.engine.wire import Failure
from octavo.errors import CheckpointError, ConfigurationError, EngineDeadError, ModelNotFoundError, PluginError
from octavo.logprobs import LogprobRows


class OwnError(ConfigurationError):
    """Of a plugin, which other processes need not have."""


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConfigurationError("too large"), ConfigurationError),
        (ModelNotFoundError("too large"), ModelNotFoundError),
        (CheckpointError("too large"), CheckpointError),
        (PluginError("too large"), PluginError),
        (OwnError("too large"), ConfigurationError),
    ],
)
def test_what_a_user_can_put_right_arrives_as_it_was_raised(raised: Exception, kind: type[Exception]) -> None:
    sent = msgspec.msgpack.encode(Failure.of(raised))
    error = msgspec.msgpack.decode(sent, type=Failure).error("the engine")
    assert type(error) is kind
    assert str(error) == "too large"


def test_everything_else_is_the_death_of_what_raised_it() -> None:
    assert str(Failure.of(KeyError("a")).error("the engine")) == "the engine failed: KeyError: 'a'"
    assert str(Failure.of(EngineDeadError("gone")).error("the engine")) == "the engine failed: gone"
    assert isinstance(Failure.of(KeyError("a")).error("the engine"), EngineDeadError)
    assert isinstance(Failure(kind="SystemExit", message="no").error("the engine"), EngineDeadError)


def test_arrays_that_do_not_fit_their_shape_are_refused_on_arrival() -> None:
    rows = LogprobRows.pack([1, 2, 3, 4], [0.0, -1.0, -2.0, -3.0], [1, 2])
    sent = msgspec.msgpack.encode(rows)
    assert msgspec.msgpack.decode(sent, type=LogprobRows) == rows
    fields = msgspec.msgpack.decode(sent)
    for change in ({"num_top": 2}, {"num_top": -1}, {"ids": b""}, {"values": fields["values"][:-1]}, {"ranks": fields["ranks"] + b"\0"}):
        with pytest.raises(msgspec.ValidationError, match="cannot have ids, values and ranks"):
            msgspec.msgpack.decode(msgspec.msgpack.encode(fields | change), type=LogprobRows)
