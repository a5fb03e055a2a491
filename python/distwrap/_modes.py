"""The names of this package in a program with PyTorch.

enabled      The session that init_process_group makes is the world of
             torch.distributed, too, and the names of _SHARED are PyTorch's own
             objects until it ends: whoever asks PyTorch for a rank gets that of
             the session. Groups are then PyTorch's ProcessGroup.
passthrough  There is no session. Names that torch.distributed has are its own
             objects; a call that it lacks raises kNeedsEnabled.

Either holds for one session at a time, that of the main thread; ranks that are
threads have their sessions beside PyTorch.
"""

import itertools
import sys

from . import _core

MODES = ("enabled", "passthrough")

# Facts about the job, and the classes of what is passed around.
_SHARED = (
    "GroupMember", "HashStore", "ProcessGroup", "ProcessGroupGloo",
    "ProcessGroupNCCL", "ReduceOp", "Store", "Work", "get_process_group_ranks",
    "get_rank", "get_world_size", "group", "is_available", "is_initialized")
# Names that work without a session, or start and end one.
_STAYING = frozenset((
    "GroupRecord", "decode_object", "destroy_process_group", "encode_object",
    "format_backend", "guard_allow", "guard_exempt", "guard_status",
    "init_process_group", "install", "parse_backend", "register_object_type",
    "uninstall"))
_NEEDS_ENABLED = next(number for number, (name, _) in _core.REASONS.items()
                      if name == "kNeedsEnabled")

_replaced = []  # (name, our value or _ABSENT): as long as PyTorch's stand here
_ABSENT = object()
# Numbers for the groups that PyTorch is handed.
_numbers = itertools.count(1 << 32)
_shared = None  # the Membership of the session whose world PyTorch has


def mode_of(mode):
    """One of MODES; ValueError for anything else."""
    if mode is None:
        return MODES[0]
    if mode not in MODES:
        raise _core._make_error(
            "init_process_group", f"mode is {mode!r}",
            f"give one of {', '.join(MODES)}", 1)
    return mode


def is_replaced():
    """Whether names of this package are PyTorch's."""
    return bool(_replaced)


def is_passing():
    """Whether a session of PyTorch stands in for one of ours."""
    return is_replaced() and _shared is None


def _distributed():
    """torch.distributed where the program has loaded it, else None."""
    found = sys.modules.get("torch.distributed")
    is_available = getattr(found, "is_available", None)
    return found if is_available is not None and is_available() else None


def _is_main_thread():
    import threading

    return threading.current_thread() is threading.main_thread()


def _seconds(number):
    from datetime import timedelta

    return timedelta(seconds=number)


def _replace(names):
    package = vars(sys.modules["distwrap"])
    for name, value in names.items():
        _replaced.append((name, package.get(name, _ABSENT)))
        package[name] = value


def _restore():
    package = vars(sys.modules["distwrap"])
    for name, value in _replaced:
        if value is _ABSENT:
            package.pop(name, None)
        else:
            package[name] = value
    _replaced.clear()


# ---- enabled ----

def began(session):
    """Makes the session's world that of PyTorch, where the program has loaded it
    and has no world there yet."""
    global _shared
    c10d = _distributed()
    if (c10d is None or c10d.is_initialized() or is_replaced()
            or not _is_main_thread()):
        return
    try:
        from .torch import _groups, _store
    except ImportError:  # a PyTorch that the adapter does not serve
        return
    world = session.world()
    membership = _groups.Membership(world, _groups.Existing(session), False,
                                    closed=_world_closed)
    membership.store = _store.Store(session.store())
    with _groups.handing(membership):
        c10d.init_process_group(
            "distwrap", store=membership.store, rank=world.rank(),
            world_size=world.size(), timeout=_seconds(world.timeout))
    _shared = membership
    _core._set_group_of(_groups.core_of)
    _replace({name: getattr(c10d, name) for name in _SHARED
              if hasattr(c10d, name)})


def _world_closed():
    """PyTorch's world has ended, by whichever call; the session may go on."""
    global _shared
    if _shared is not None:
        _shared = None
        _core._set_group_of(None)
        _restore()


def another_session_begins():
    """Names that tell of the thread's session are ours again: PyTorch has one
    world, and this process more than one."""
    if _shared is not None:
        _restore()


def shown(group):
    """A group as PyTorch's, while its names are PyTorch's."""
    if _shared is None or not is_replaced():
        return group
    c10d = _distributed()
    if not group:
        return c10d.GroupMember.NON_GROUP_MEMBER
    from .torch import _groups

    membership = _groups.Membership(group, _shared.session, False)
    # Members alone make it, so it may not count among the groups that all ranks
    # make, whose names PyTorch takes from their number.
    world = c10d.distributed_c10d._world
    count, world.group_count = world.group_count, next(_numbers)
    try:
        with _groups.handing(membership):
            return c10d.new_group(
                _core.get_process_group_ranks(group), sort_ranks=False,
                timeout=_seconds(group.timeout), backend="distwrap",
                use_local_synchronization=True, group_desc=group.group_desc)
    finally:
        world.group_count = count


def destroy(group):
    """Ends a group where PyTorch knows it; True when that was all of it."""
    c10d = _distributed()
    if is_passing():
        c10d.destroy_process_group(group)
        if not c10d.is_initialized():
            _restore()
        return True
    if _shared is None or not c10d.is_initialized():
        return False
    core = group
    if group is None:
        if not _core.is_initialized():
            return False
        core = _core._world()
    elif not isinstance(group, _core.ProcessGroup):
        core = _core._group_of(group)
        if core is None:
            return False
    if core == _shared.core:
        try:
            c10d.destroy_process_group()
        finally:  # a broken group may end with an error
            _core._destroy(core)
        return True
    if group is core:  # no group of PyTorch
        return False
    c10d.destroy_process_group(group)
    return True


# ---- passthrough ----

def warn_of_unused(options):
    """Names the options of a session that the program has given: there is none.
    A program that changes only its mode still starts."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        import warnings

        warnings.warn(
            f"init_process_group(mode='passthrough') makes no session, so it "
            f"leaves out {', '.join(given)}. Next: give them with "
            "mode='enabled' alone", RuntimeWarning, stacklevel=3)


def pass_through(backend, init_method, timeout, world_size, rank, store,
                 group_name, pg_options, device_id):
    """Starts PyTorch's world, and gives this package its names."""
    if is_replaced() or _core.is_initialized():
        raise _core._make_error(
            "init_process_group", "mode='passthrough' beside a session",
            "call destroy_process_group before", 1)
    try:
        import torch.distributed as c10d
    except ImportError as error:
        raise ImportError(
            f"mode='passthrough' calls PyTorch, which cannot be imported: "
            f"{error}. Next: install it, or leave the mode out") from error
    if isinstance(timeout, (int, float)):
        timeout = _seconds(timeout)
    c10d.init_process_group(
        backend, init_method=init_method, timeout=timeout,
        world_size=world_size, rank=rank, store=store, group_name=group_name,
        pg_options=pg_options, device_id=device_id)
    from . import _passthrough

    package = sys.modules["distwrap"]
    names = {}
    for name, value in vars(package).items():
        if (name.startswith("_") or name in _STAYING
                or isinstance(value, type(sys))
                or isinstance(value, type) and issubclass(value, Exception)):
            continue
        if hasattr(_passthrough, name):
            names[name] = getattr(_passthrough, name)
        elif hasattr(c10d, name):
            names[name] = getattr(c10d, name)
        elif callable(value):
            names[name] = _refusing(name)
    names.update((name, getattr(c10d, name)) for name in _SHARED
                 if hasattr(c10d, name))
    _replace(names)


def _refusing(name):
    def refuse(*_, **__):
        raise _core._make_error(
            name, f"{name} requires mode='enabled': PyTorch has no such call",
            "start without mode='passthrough'", _NEEDS_ENABLED)
    refuse.__name__ = name
    return refuse
