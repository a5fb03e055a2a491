"""Objects: values of any shape that ranks give each other.

None, bool, int, float, str, bytes, list, tuple, dict, NumPy's arrays and
torch's tensors travel in a typed encoding (docs/objects.md), in which no code
can hide. Types of the program travel once they are registered, and everything
else with pickle=True, which trusts all ranks.
"""

import collections

from . import _core


class Extension(collections.namedtuple("Extension", ("name", "bytes"))):
    """Bytes under the name of a type that this process has not registered."""

    __slots__ = ()


def register_object_type(name, cls, write, read):
    """Lets objects of cls travel, under `name`: write(object) -> bytes and
    read(bytes) -> object. Every rank registers it before its first use."""
    _core._register_object_type(name, cls, write, read)


def all_gather_object(object_list, obj, group=None, *, pickle=False,
                      timeout=None, label=None):
    """object_list[i] gets the object of rank i. object_list has one place for
    each rank; None: the list is returned."""
    every = _core._all_gather_object(obj, group, pickle, timeout, label)
    if object_list is None:
        return every
    _fill("all_gather_object", object_list, every)
    return None


def gather_object(obj, object_gather_list=None, dst=None, group=None,
                  group_dst=None, *, pickle=False, timeout=None, label=None):
    """object_gather_list[i] on the rank dst (or group_dst; rank 0 of the group by
    default) gets the object of rank i. Other ranks give no list."""
    root = _is_root(dst, group, group_dst)
    if root and object_gather_list is None:
        # Other ranks learn of it from the exchange.
        error = _core._make_error(
            "gather_object", "the root gave no list for the objects",
            "give object_gather_list on the root", 14)
        _refuse_everywhere(dst, group_dst, group, timeout, label, error)
    every = _core._gather_object(obj, dst, group_dst, group, pickle, timeout,
                                 label)
    if root:
        _fill("gather_object", object_gather_list, every)


def broadcast_object_list(object_list, src=None, group=None, device=None,
                          group_src=None, *, pickle=False, timeout=None,
                          label=None):
    """The objects of the rank src (or group_src; rank 0 of the group by default)
    replace those in the other ranks' lists, which are as long."""
    del device
    root = _is_root(src, group, group_src)
    every = _core._broadcast_objects(
        object_list if root else (), len(object_list), src, group_src, group,
        pickle, timeout, label)
    if not root:
        object_list[:] = every


def scatter_object_list(scatter_object_output_list,
                        scatter_object_input_list=None, src=None, group=None,
                        group_src=None, *, pickle=False, timeout=None,
                        label=None):
    """scatter_object_output_list[0] gets scatter_object_input_list[rank] of the
    rank src (or group_src; rank 0 of the group by default)."""
    if not isinstance(scatter_object_output_list, list) or (
            not scatter_object_output_list):
        raise _core._make_error(
            "scatter_object_list",
            "scatter_object_output_list is no list with a place",
            "give a list of one item", 1)
    scatter_object_output_list[0] = _core._scatter_objects(
        scatter_object_input_list or (), src, group_src, group, pickle,
        timeout, label)


def send_object_list(object_list, dst=None, group=None, device=None,
                     group_dst=None, use_batch=False, *, pickle=False,
                     timeout=None, label=None):
    """Sends objects to the rank dst (or group_dst)."""
    del device, use_batch
    _core._send_objects(object_list, dst, group_dst, group, pickle, timeout,
                        label)


def recv_object_list(object_list, src=None, group=None, device=None,
                     group_src=None, use_batch=False, *, pickle=False,
                     timeout=None, label=None):
    """Fills the list with objects of the rank src (or group_src), which sends as
    many."""
    del device, use_batch
    object_list[:] = _core._recv_objects(len(object_list), src, group_src,
                                         group, pickle, timeout, label)


def _is_root(root, group, group_root):
    if group_root is not None:
        return _core.get_rank(group) == group_root
    if root is None:
        return _core.get_rank(group) == 0
    return _core.get_rank() == root


def _fill(call, places, every):
    if len(places) != len(every):
        raise _core._make_error(
            call, f"the list has {len(places)} places for {len(every)} objects",
            "give one place for each rank", 1)
    places[:] = every


class _NoObject:
    """An exchange with it fails on all ranks, with the text of `error`."""

    def __init__(self, error):
        self.error = error

    def write(self):
        raise self.error


_core._register_object_type("distwrap.no_list", _NoObject, _NoObject.write,
                            bytes)


def _refuse_everywhere(dst, group_dst, group, timeout, label, error):
    try:
        _core._gather_object(_NoObject(error), dst, group_dst, group, False,
                             timeout, label)
    except Exception:  # the caller raises what this rank did wrong
        pass
    raise error
