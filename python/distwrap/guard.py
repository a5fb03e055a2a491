"""The guard against direct calls of other communication libraries.

    dist.init_process_group(guard="block")
    with dist.guard_allow("a solver that uses MPI"):
        solve()

While a session guards, the names of torch.distributed that communicate raise an
error (the Python door), and so do calls of NCCL, MPI, UCX and Gloo in C where
libdistwrap_guard.so is preloaded (the C door, `distwrap run --guard`). Calls
from inside PyTorch pass the Python door. docs/guard.md has the names.
"""

import contextvars
import sys
from _thread import RLock

from . import _core

# The functions of torch.distributed that send; the call that replaces each has
# the same name here, except for those in _INSTEAD.
NAMES = (
    "send", "recv", "isend", "irecv", "broadcast", "all_reduce", "reduce",
    "all_gather", "all_gather_into_tensor", "gather", "scatter",
    "reduce_scatter", "reduce_scatter_tensor", "all_to_all_single",
    "all_to_all", "barrier", "batch_isend_irecv", "all_gather_object",
    "gather_object", "scatter_object_list", "broadcast_object_list",
    # Later names, where PyTorch has them.
    "all_gather_single", "reduce_scatter_single", "gather_single",
    "gather_into_tensor", "all_reduce_coalesced", "all_gather_coalesced",
    "monitored_barrier", "send_object_list", "recv_object_list")
_INSTEAD = {
    "all_gather_single": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "gather_single": "gather_into_tensor",
    "all_reduce_coalesced": "batch", "all_gather_coalesced": "batch",
}
_MODULES = ("torch.distributed", "torch.distributed.distributed_c10d")

_lock = RLock()
_replaced = []  # (module, name, original, ours)
_passing = {"torch"}  # packages whose modules may call
_allowed = contextvars.ContextVar("distwrap_guard_allowed", default=0)


class _Scope:
    def __init__(self, reason):
        self._reason = reason

    def __enter__(self):
        _core._guard_enter(self._reason)
        self._token = _allowed.set(_allowed.get() + 1)

    def __exit__(self, *error):
        _allowed.reset(self._token)
        _core._guard_leave()


def guard_allow(reason):
    """A scope in which this thread, and the asyncio task that opens it, may call
    other communication libraries. Scopes nest. reason: shown by guard_status."""
    return _Scope(reason)


def guard_exempt(name):
    """Lets a package of Python call (its first name, such as "accelerate"), and
    modules in C whose file names begin so."""
    _passing.add(name)
    _core._guard_exempt(name)


def guard_status():
    """A dict: mode; door, the file of the C door or None; guarded, the number of
    its functions; names, those that the Python door has closed; refused,
    {function: calls}; scopes, the reasons of the open scopes."""
    status = {"mode": "off", "door": None, "guarded": 0, "refused": {},
              "scopes": []}
    for text in _core._guard_status():
        kind, _, rest = text.partition(" ")
        if kind == "refused":
            count, _, name, _ = rest.split(" ")
            status["refused"][name] = int(count)
        elif kind == "scope":
            status["scopes"].append(rest)
        else:
            status[kind] = int(rest) if kind == "guarded" else rest
    with _lock:
        status["names"] = sorted({name for _, name, _, _ in _replaced})
    for name, count in _refused.items():
        status["refused"]["torch.distributed." + name] = count
    return status


_refused = {}


def _closing(name, original):
    """The function that stands in for one of torch.distributed."""
    import functools

    @functools.wraps(original)
    def closed(*arguments, **named):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if (_allowed.get() == 0
                and caller.partition(".")[0] not in _passing):
            return _refuse(name, original, arguments, named)
        return original(*arguments, **named)
    return closed


def _refuse(name, original, arguments, named):
    mode = guard_status()["mode"]
    if mode == "off":  # the last session has ended meanwhile
        sync()
        return original(*arguments, **named)
    with _lock:
        _refused[name] = first = _refused.get(name, 0) + 1
    instead = "distwrap." + _INSTEAD.get(name, name)
    text = "torch.distributed APIs have been disabled"
    step = (f"call {instead}, or open a scope by "
            "distwrap.guard_allow(reason)")
    if mode != "warn":
        raise _core._make_error(name, text, step, _DIRECT_CALL)
    if first == 1:
        sys.stderr.write(f"distwrap: kDirectCall: {name}: {text}. "
                         f"Next: {step}\n")
    return original(*arguments, **named)


def sync():
    """Closes or opens the Python door as the sessions of the process want. The
    sessions of PyTorch's backend do not call it: their callers use these
    names."""
    closed = _core._guard_status()[0] != "mode off"
    with _lock:
        if closed and not _replaced:
            _close()
        elif not closed and _replaced:
            _open()


def _close():
    if _MODULES[1] not in sys.modules:
        if not any(isinstance(one, _AtImport) for one in sys.meta_path):
            sys.meta_path.insert(0, _AtImport())
        return
    for module in (sys.modules[name] for name in _MODULES
                   if name in sys.modules):
        for name in NAMES:
            original = vars(module).get(name)
            if original is None:
                continue
            # The two modules share one object, so they get one replacement.
            ours = next((mine for _, known, was, mine in _replaced
                         if known == name and was is original),
                        None) or _closing(name, original)
            _replaced.append((module, name, original, ours))
            setattr(module, name, ours)


def _open():
    for module, name, original, ours in _replaced:
        # A replacement that somebody else has made meanwhile stays.
        if vars(module).get(name) is ours:
            setattr(module, name, original)
    _replaced.clear()


class _AtImport:
    """Closes the door when PyTorch is imported after a session began."""

    def find_spec(self, fullname, path, target=None):
        if fullname != "torch.distributed":
            return None
        import importlib.util  # takes longer to import than all of this package

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            sync()

        spec.loader.exec_module = exec_module
        return spec


_DIRECT_CALL = next(number for number, (name, _) in _core.REASONS.items()
                    if name == "kDirectCall")
