"""The forms of the backend's class, and how PyTorch makes one.

From PyTorch 2.14 on a class in Python derives from c10d's Backend and serves the
devices that it is registered for. Before, only a subclass of c10d's ProcessGroup
can be written in Python, and it is the whole group. Which form is used is found
by trying. _compiled.py adds one in C++.
"""

import sys

import torch
from torch._C import _distributed_c10d as c10d

from .. import _core
from . import _compiled, _groups
from ._calls import Calls


class _BackendForm(Calls, c10d.Backend):
    """A backend of PyTorch over a group of distwrap."""

    def __init__(self, membership, rank, size, name, options):
        c10d.Backend.__init__(self, rank, size)
        self._set_up(membership, name, options)

    @property
    def options(self):
        return self._options

    @property
    def supports_splitting(self):
        return True

    def split(self, store, ranks, opts):
        """The group of these ranks of this one. Its members call."""
        timeout = getattr(opts, "_timeout", None) or self._options._timeout
        made = self._membership.split(ranks, timeout)
        world = self._options.global_ranks_in_group or range(self.size())
        return _best(_BackendForm(
            made, ranks.index(self.rank()), len(ranks), self._name,
            _options(self._name, timeout, getattr(opts, "group_name", ""),
                     [world[i] for i in ranks])))


class _GroupForm(Calls, c10d.ProcessGroup):
    """The process group itself, where PyTorch has no backends in Python."""

    def __init__(self, membership, rank, size, name, options):
        c10d.ProcessGroup.__init__(self, rank, size)
        self._group_name, self._group_desc = options.group_name, ""
        self._set_up(membership, name, options)

    def _get_backend(self, device):
        if torch.device(device).type != "cpu":
            raise NotImplementedError(
                "a backend beside distwrap, for another device than cpu, needs "
                "PyTorch 2.14 or later. Next: keep tensors on the CPU")
        return self

    @property
    def _device_types(self):
        return [torch.device("cpu")]

    @property
    def options(self):
        return self._options

    @property
    def supports_splitting(self):
        return False

    def name(self):
        return self._name

    def _start_coalescing(self, device):
        self.start_coalescing()

    def _end_coalescing(self, device):
        return self.end_coalescing()

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        opts = c10d.BarrierOptions()
        if timeout is not None:
            opts.timeout = timeout
        Calls.monitored_barrier(self, opts, wait_all_ranks)

    def _has_hooks(self):
        return False

    # C++ keeps these texts in the backends of a group, and here is none.

    def setGroupName(self, name):
        self._group_name = name

    def getGroupName(self):
        return self._group_name

    def setGroupDesc(self, description):
        self._group_desc = description

    def getGroupDesc(self):
        return self._group_desc


def _is_derivable():
    class Probe(c10d.Backend):
        pass

    try:
        Probe(0, 1)
    except TypeError:  # no constructor
        return False
    return True


IS_BACKEND = _is_derivable()
Backend = _BackendForm if IS_BACKEND else _GroupForm


def _options(name, timeout, group_name, ranks):
    made = c10d.Backend.Options(name, timeout)
    made.group_name = group_name
    made.global_ranks_in_group = ranks
    return made


def _best(backend):
    """The compiled form around one in Python, where it has been built."""
    compiled = _compiled.load() if IS_BACKEND else None
    if compiled is None:
        return backend
    return compiled.Backend(backend, _core._group_address(
        backend._membership.core))


def _refuse_mixed():
    """Refuses a device string with a second backend, which the group form would
    leave out silently. The string is known to c10d's frames alone."""
    frame = sys._getframe(2)
    config = frame.f_locals.get("backend_config")
    names = getattr(config, "get_device_backend_map", dict)()
    if len(set(names.values())) > 1:
        raise NotImplementedError(
            f"{names}: a second backend beside distwrap needs PyTorch 2.14 or "
            "later. Next: use it, or init_process_group('distwrap')")


def create(opts, pg_options=None, name="distwrap"):
    """Makes a group for c10d. opts: its _DistributedBackendOptions."""
    del pg_options
    if not IS_BACKEND:
        _refuse_mixed()
    ranks = list(opts.global_ranks_in_group)
    membership = _groups.join(opts.store, opts.group_rank, opts.group_size,
                              opts.timeout, ranks)
    return _best(Backend(membership, opts.group_rank, opts.group_size, name,
                         _options(name, opts.timeout, opts.group_id, ranks)))
