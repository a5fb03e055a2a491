"""Operations in flight as PyTorch's Work, and their futures."""

import torch
from torch._C import _distributed_c10d as c10d

from ..errors import DistError
from ._errors import translate


def _finished():
    future = torch.futures.Future()
    future.set_result([])
    return c10d._create_work_from_future(future)


# The Work of every call that ended before it returned. Its wait is C++ alone.
FINISHED = _finished()


class Work(c10d.Work):
    """One operation that was begun. PyTorch asks it for wait and get_future; the
    other methods serve callers in Python."""

    def __init__(self, core, outputs, staged=None):
        super().__init__()
        self._core = core
        self._outputs = outputs
        self._staged = staged
        self._future = None
        if staged is not None:  # called even when nobody waits
            core.add_done_callback(lambda _: staged.finish())

    def wait(self, timeout=None):
        """True, or the operation's error. timeout: a timedelta; none or zero
        waits for the group's limit."""
        seconds = None
        if timeout is not None:
            seconds = timeout.total_seconds()
            if seconds <= 0:
                seconds = None
        try:
            self._core.wait(seconds)
        except DistError as error:
            raise translate(error) from None
        if self._staged is not None:
            self._staged.finish()
        return True

    def get_future(self):
        """A future of the list of output tensors."""
        if self._future is None:
            self._future = _future_of(self._core, self._outputs, self._staged)
        return self._future

    def is_completed(self):
        return self._core.is_completed()

    def is_success(self):
        return self._core.is_success()

    def exception(self):
        error = self._core.exception()
        return None if error is None else translate(error)

    def result(self):
        self.wait()
        return list(self._outputs)

    def synchronize(self):
        self.wait()


def _future_of(core, outputs, staged):
    # An error that is raised in `then` is an error of C++ too, for the readers
    # of futures in DDP; one that is only set in Python would be a value there.
    ended = torch.futures.Future()

    def deliver(_):
        error = core.exception()
        if error is not None:
            raise translate(error)
        if staged is not None:
            staged.finish()
        return outputs

    future = ended.then(deliver)
    core.add_done_callback(lambda _: ended.set_result(None))
    return future
