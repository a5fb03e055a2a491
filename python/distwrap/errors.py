"""The exceptions of distwrap: one class for each kind, with the fields of the
error (docs/errors.md).

Every one is a DistError and, beside that, the class that torch.distributed
raises in its place: ValueError, AssertionError, RuntimeError,
NotImplementedError; a time limit is a TimeoutError and a RuntimeError.
"""

from ._core import REASONS

_DEFAULTS = {
    "code": 2, "reason": 0, "my_rank": -1, "group_size": 0, "ranks": (),
    "seen": (), "seq": 0, "elapsed": 0.0, "limit": 0.0, "text": "",
    "what": "", "op": "", "group": "", "expected": "", "actual": "",
    "cause": "", "next_step": "", "label": "", "setting": "", "page": "",
}


class DistError(Exception):
    """An error of a call.

    reason: the name of docs/errors.md, such as "kTimedOut". op, group, seq:
    the call. ranks: whom to blame, as ranks of the group. seen: a dict for each
    rank that was seen in some call. elapsed, limit: seconds. expected, actual,
    cause, next_step, label, setting, page: texts; "" where not known.
    """

    def __init__(self, fields):
        super().__init__(fields.get("text") or "distwrap: out of memory")
        for name, default in _DEFAULTS.items():
            setattr(self, name, fields.get(name, default))
        self.ranks = tuple(self.ranks)
        self.seen = tuple(self.seen)
        self.reason = REASONS[self.reason][0]
        self._fields = fields

    def __reduce__(self):
        return (make, (self._fields,))


class DistValueError(DistError, ValueError):
    """An argument breaks a rule of the call; nothing was sent."""


class DistAssertionError(DistError, AssertionError):
    """The call came too early, too late or without what it stands on."""


class DistRuntimeError(DistError, RuntimeError):
    """A rank, a group or an engine failed."""


class DistTimeoutError(DistError, TimeoutError, RuntimeError):
    """A time limit has passed."""

    def __str__(self):
        return self.args[0]


class DistNotImplementedError(DistError, NotImplementedError):
    """The backend does not support the call."""


_CLASSES = {
    "ValueError": DistValueError,
    "AssertionError": DistAssertionError,
    "RuntimeError": DistRuntimeError,
    "TimeoutError": DistTimeoutError,
    "NotImplementedError": DistNotImplementedError,
}


def make(fields):
    """The exception of an error's fields."""
    return _CLASSES[REASONS[fields.get("reason", 0)][1]](fields)
