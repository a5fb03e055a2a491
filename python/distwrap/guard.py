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
import os
import sys
from _thread import RLock

from . import _core

# Names of torch.distributed that send, and the names here that replace them.
_INSTEAD = dict(_core.GUARDED_NAMES)
NAMES = tuple(_INSTEAD)
_C10D = "torch.distributed.distributed_c10d"
_MODULES = ("torch.distributed", _C10D)
_OFF, _WARN = 0, 1

_lock = RLock()
_sessions = []  # guarding ones, made without torch.distributed
_mode = _OFF    # the strictest wish of these
_replaced = []  # (module or class, name, original, ours)
_forms = {}     # (name, id of the original) -> ours, kept for later sessions
_batches = None  # made when the door closes first
_passing = {"torch"}  # packages whose modules may call
_allowed = contextvars.ContextVar("distwrap_guard_allowed", default=0)
_refused = {}  # name -> calls
_told = set()  # (name, module): written to stderr


class _Scope:
    def __init__(self, reason):
        self._reason = reason

    def __enter__(self):
        _core._guard_enter(self._reason)
        self._token = _allowed.set(_allowed.get() + 1)

    def __exit__(self, *error):
        try:
            _allowed.reset(self._token)
        finally:
            _core._guard_leave()


def guard_allow(reason):
    """A scope in which calls of other communication libraries pass: those of
    torch.distributed from this asyncio task, or this thread without one, and
    those of C from this thread, whichever task runs in it. Scopes nest. reason:
    shown by guard_status."""
    return _Scope(reason)


def guard_exempt(name):
    """Lets a package of Python call (its first name, such as "accelerate"), and
    modules in C whose file names begin so."""
    _passing.add(name)
    _core._guard_exempt(name)


def guard_status():
    """A dict: mode; door, the file of the C door or None; functions, those that
    the C door guards; names, those that the Python door has closed; refused,
    {function: calls}; scopes, the reasons of the open scopes."""
    status = {"mode": "off", "door": None, "functions": [], "refused": {},
              "scopes": []}
    for text in _core._guard_status():
        kind, _, rest = text.partition(" ")
        if kind == "refused":
            count, _, name, _ = rest.split(" ")
            status["refused"][name] = int(count)
        elif kind == "guarded":
            status["functions"].append(rest.split(" ")[1])
        elif kind == "scope":
            status["scopes"].append(rest)
        else:
            status[kind] = rest
    with _lock:
        status["names"] = sorted({name for _, name, _, _ in _replaced
                                  if name in _INSTEAD})
    for name, count in _refused.items():
        status["refused"]["torch.distributed." + name] = count
    return status


def _closing(name, original):
    """The function that stands in for one of torch.distributed."""
    import functools

    # Locals: PyTorch itself calls this, and pays for each look-up.
    frame, passing, allowed = sys._getframe, _passing, _allowed.get

    @functools.wraps(original)
    def closed(*arguments, **named):
        caller = frame(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] not in passing and not allowed():
            _refuse(name, caller)
        return original(*arguments, **named)

    if name != "batch_isend_irecv":
        return closed

    @functools.wraps(original)
    def closed_batch(*arguments, **named):
        caller = frame(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] not in passing and not allowed():
            _refuse(name, caller)
        _batches.adopt_all(arguments, named)
        return original(*arguments, **named)
    return closed_batch


def _refuse(name, caller):
    """Returns when the call may pass."""
    if _mode == _OFF:  # a name that was imported while the door was closed
        return
    with _lock:
        _refused[name] = _refused.get(name, 0) + 1
        first = (name, caller) not in _told
        _told.add((name, caller))
    text = "torch.distributed APIs have been disabled"
    step = (f"call distwrap.{_INSTEAD[name]} in {caller or 'this code'}, or "
            "open a scope by distwrap.guard_allow(reason)")
    if _mode != _WARN:
        raise _core._make_error(name, text, step, _DIRECT_CALL)
    if first:
        sys.stderr.write(f"distwrap: kDirectCall: {name}: {text}. "
                         f"Next: {step}\n")


def began(session):
    """A session whose creator calls distwrap itself, unlike those of PyTorch's
    backend, whose callers use the names of torch.distributed."""
    with _lock:
        if session._guard() != _OFF:
            _sessions.append(session)
    sync()


def sync():
    """Closes or opens the Python door as the living sessions want."""
    global _mode
    with _lock:
        _sessions[:] = [one for one in _sessions if one._guard() != _OFF]
        _mode = max((one._guard() for one in _sessions), default=_OFF)
        if _mode != _OFF and not _replaced:
            _close()
        elif _mode == _OFF and _replaced:
            _open()


def _close():
    if _C10D not in sys.modules:
        if not any(isinstance(one, _AtImport) for one in sys.meta_path):
            sys.meta_path.insert(0, _AtImport())
        return
    for module in (sys.modules[name] for name in _MODULES
                   if name in sys.modules):
        for name in NAMES:
            original = vars(module).get(name)
            if original is None:
                continue
            # Two modules share one object, so they get one replacement, which
            # holds the original: its id stays its own.
            ours = _forms.get((name, id(original)))
            if ours is None:
                ours = _closing(name, original)
                _forms[name, id(original)] = ours
            _replace(module, name, ours)
    _close_batches()


def _replace(owner, name, ours):
    _replaced.append((owner, name, vars(owner)[name], ours))
    setattr(owner, name, ours)


def _open():
    for owner, name, original, ours in _replaced:
        # A replacement that somebody else has made meanwhile stays.
        if vars(owner).get(name) is ours:
            setattr(owner, name, original)
    _replaced.clear()
    _batches.restore()


def _close_batches():
    global _batches
    if _batches is None:
        from ._guard_batches import Batches
        _batches = Batches()
    c10d = sys.modules[_C10D]
    for owner, name, ours in _batches.close(c10d, {
            original: ours for module, name, original, ours in _replaced
            if module is c10d and name in ("isend", "irecv")}):
        _replace(owner, name, ours)


def _forked():
    """The sessions of a process are not those of its forked child."""
    global _lock
    _lock = RLock()
    sync()


os.register_at_fork(after_in_child=_forked)


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
