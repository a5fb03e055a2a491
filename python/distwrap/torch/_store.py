"""A session's store as one of PyTorch's."""

from datetime import timedelta

from torch.distributed import Store as _Store

from ..errors import DistError
from ._errors import translate


class Store(_Store):
    """The words of PyTorch in the store of a session, under a prefix. Who makes
    one keeps it: C++ alone does not keep what is written in Python."""

    _PREFIX = "torch/"

    def __init__(self, core):
        super().__init__()
        self._core = core
        self._limit = 300.0
        self._clones = []

    def set_timeout(self, timeout):
        self._limit = timeout.total_seconds()

    def set(self, key, value):
        if isinstance(value, str):
            value = value.encode()
        self._call("set", key, bytes(value))

    def get(self, key):
        return self._call("get", key, self._limit)

    def add(self, key, amount):
        return self._call("add", key, amount)

    def compare_set(self, key, expected, desired):
        return self._call("compare_set", key, _bytes(expected),
                          _bytes(desired))

    def delete_key(self, key):
        return self._call("delete_key", key)

    def check(self, keys):
        try:
            self._core.wait([self._PREFIX + key for key in keys], 0.001)
        except TimeoutError:
            return False
        except DistError as error:
            raise translate(error) from None
        return True

    def wait(self, keys, timeout=None):
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else \
            self._limit
        try:
            self._core.wait([self._PREFIX + key for key in keys], limit)
        except DistError as error:
            raise translate(error) from None

    def num_keys(self):
        raise NotImplementedError(
            "a session's store does not count its keys. Next: count them by "
            "add(), under a key of your own")

    def clone(self):
        self._clones.append(Store(self._core))
        return self._clones[-1]

    # The names under which C++ asks.
    setTimeout = set_timeout
    deleteKey = delete_key
    getNumKeys = num_keys

    def _call(self, name, key, *arguments):
        try:
            return getattr(self._core, name)(self._PREFIX + key, *arguments)
        except DistError as error:
            raise translate(error) from None


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)
