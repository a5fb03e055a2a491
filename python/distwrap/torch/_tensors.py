"""PyTorch's tensors as the core reads them, without a copy where possible.

The core takes elements that lie side by side. A dense tensor in another order of
dimensions is given as one row where the order of elements does not matter, as in
a reduction. Every other layout goes through a contiguous copy, which is written
back when the operation has ended.
"""

import threading

import torch

from ._errors import NO_COMMUNICATOR, lacks, refuse

# Types whose memory is that of their elements.
_plain = {torch.Tensor, torch.nn.Parameter}
_STRIDED = torch.strided


def _check_type(tensor, call, name):
    kind = type(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{call}: {name} is of type {kind.__name__}. "
                        "Next: give a torch.Tensor")
    if getattr(kind, "__torch_dispatch__", None) is not getattr(
            torch.Tensor, "__torch_dispatch__", None):
        # A DTensor, a FakeTensor: a wrapper without elements of its own.
        raise TypeError(
            f"{call}: {name} is a {kind.__name__}, which has no memory of its "
            "own. Next: give its local tensor, as x.to_local() does, or use "
            "torch.distributed._functional_collectives")
    _plain.add(kind)


def is_plain(tensor):
    """Whether the core reads the tensor as it is."""
    return (type(tensor) in _plain and tensor.is_cpu and
            tensor.layout is _STRIDED and tensor.is_contiguous())


def check(tensor, call, name="tensor"):
    """Refuses what has no elements in this process's memory."""
    if type(tensor) not in _plain:
        _check_type(tensor, call, name)
    if not tensor.is_cpu:
        raise refuse(
            call, f"{name} is on the device {tensor.device}, and the group has "
            "a communicator for cpu alone",
            "make the group by init_process_group('cpu:distwrap,cuda:nccl')",
            NO_COMMUNICATOR)
    if tensor.layout is not _STRIDED:
        raise lacks(f"{call} of a sparse tensor", "give tensor.to_dense()")


def is_dense(tensor):
    """Whether the elements fill one piece of memory, in any order of
    dimensions."""
    expected = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


class Staged:
    """The copies of one call. `finish` writes them back, once."""

    def __init__(self):
        self._copies = []
        self._lock = threading.Lock()

    def add(self, tensor, copy):
        self._copies.append((tensor, copy))

    def finish(self):
        with self._lock:
            for tensor, copy in self._copies:
                with torch.no_grad():
                    tensor.copy_(copy)
            self._copies.clear()


def read(tensor, call, name="tensor"):
    """The elements of an input."""
    check(tensor, call, name)
    return tensor if tensor.is_contiguous() else _resolved(tensor).contiguous()


def written(tensor, staged, call, name="tensor", in_place=False):
    """Where the core writes an output, and the list of copies with what it adds.
    in_place: the core reads it as well."""
    check(tensor, call, name)
    if tensor.is_contiguous():
        return tensor, staged
    if staged is None:
        staged = Staged()
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    if in_place:
        with torch.no_grad():
            copy.copy_(tensor)
    staged.add(tensor, copy)
    return copy, staged


def reduced(tensor, staged, call, name="tensor"):
    """As `written` in place, where the order of elements does not matter."""
    check(tensor, call, name)
    if tensor.is_contiguous():
        return tensor, staged
    if is_dense(tensor):
        return tensor.detach().as_strided((tensor.numel(),), (1,)), staged
    return written(tensor, staged, call, name, in_place=True)


def _resolved(tensor):
    return tensor.detach().resolve_conj().resolve_neg()
