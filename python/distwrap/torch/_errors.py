"""Errors of distwrap as the classes that PyTorch raises, with our whole text.

A lost link is a DistNetworkError, a fault of the store a DistStoreError, and
every other error a DistBackendError. An argument that breaks a rule is also a
ValueError, a passed limit also a TimeoutError, and a call that the backend lacks
also a NotImplementedError. The fields of distwrap.DistError (reason, ranks,
next_step and so on) are attributes of the exception.
"""

from torch.distributed import (
    DistBackendError, DistNetworkError, DistStoreError)

from .. import _core
from ..errors import DistError


class DistBackendValueError(DistBackendError, ValueError):
    """An argument breaks a rule of the call; nothing was sent."""


class DistBackendTimeoutError(DistBackendError, TimeoutError):
    """A time limit has passed."""

    def __str__(self):
        return self.args[0]


class DistBackendNotImplementedError(DistBackendError, NotImplementedError):
    """The backend does not support the call."""


_NETWORK = {"kPeerLost"}
_STORE = {"kStoreUnreachable", "kStoreConflict"}


def translate(error):
    """The exception of PyTorch for a DistError."""
    if error.reason in _NETWORK or "kPeerLost" in error.cause:
        kind = DistNetworkError
    elif error.reason in _STORE:
        kind = DistStoreError
    elif isinstance(error, TimeoutError):
        kind = DistBackendTimeoutError
    elif isinstance(error, NotImplementedError):
        kind = DistBackendNotImplementedError
    elif isinstance(error, ValueError):
        kind = DistBackendValueError
    else:
        kind = DistBackendError
    translated = kind(str(error))
    translated.__dict__.update(
        (name, value) for name, value in vars(error).items()
        if not name.startswith("_"))
    return translated


def raise_at(code, address):
    """Raises what an error of the C API, at this address, is in PyTorch."""
    raise translate(_core._exception_at(code, address)) from None


def refuse(call, what, next_step, reason=1):
    """The exception of an argument that breaks a rule; reason: its number in
    reasons.def."""
    return translate(_core._make_error(call, what, next_step, reason))


NO_COMMUNICATOR = 3
UNSUPPORTED = 6
AUTH_FAILED = 46


def lacks(call, next_step):
    """The exception of a call that this backend does not have."""
    return NotImplementedError(
        f"{call}: the backend distwrap does not have this call. "
        f"Next: {next_step}")


__all__ = ["DistError", "lacks", "raise_at", "refuse", "translate"]
