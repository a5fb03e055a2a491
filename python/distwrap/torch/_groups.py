"""Sessions and groups behind c10d's groups.

c10d's world is a session of its own, whose ranks meet under a random name that
rank 0 puts into c10d's store; nothing else goes there. The members of another
group make it from that world, and need nothing from the ranks outside. A group
beside a foreign world is a session of its own. The facade hands over the groups
that it has made (_modes.py).
"""

import contextlib
import os
import secrets
import socket
import threading
import weakref

import torch
from torch.distributed import DistStoreError, ProcessGroup

from .. import _core
from ..errors import DistError
from ..groups import begin_session
from ._errors import AUTH_FAILED, UNSUPPORTED, refuse, translate

_KEY = "distwrap"

# The session of c10d's world while that world is ours.
_world = None

# The Membership of the group that c10d is asked to make next.
_handed = None


# Variables of launchers: the number of ranks, and of those on this host.
_SIZES = (("DISTWRAP_WORLD_SIZE", "DISTWRAP_LOCAL_WORLD_SIZE"),
          ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
          ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"))


def _is_on_several_hosts():
    for everywhere, here in _SIZES:
        if everywhere in os.environ and here in os.environ:
            return os.environ[everywhere] != os.environ[here]
    return False


def _free_place():
    """An address of this host that other hosts reach, with a free port."""
    known = os.environ.get("MASTER_ADDR", socket.gethostname())
    family, _, _, _, address = socket.getaddrinfo(
        known, 9, type=socket.SOCK_DGRAM)[0]
    # Connecting a datagram socket only chooses the way.
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(address)
        here = way.getsockname()[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((here, 0))
        port = probe.getsockname()[1]
    return f"tcp://[{here}]:{port}" if ":" in here else f"tcp://{here}:{port}"


def _meeting_name(store, rank, size, timeout):
    """The init_method of a session whose ranks have this store in common."""
    if size == 1:
        return None
    host = socket.gethostname()
    try:
        if rank == 0:
            name = (_free_place() if _is_on_several_hosts() else
                    f"{secrets.token_hex(16)}@{host}")
            store.set(_KEY, name)
        else:
            store.wait([_KEY], timeout)
            name = store.get(_KEY).decode()
    except DistStoreError:
        raise
    except (OSError, RuntimeError) as error:
        raise DistStoreError(
            f"distwrap: rank {rank} of {size} could not learn from PyTorch's "
            f"store where the ranks meet: {error}. Next: see whether rank 0 "
            "has failed before") from error
    if name.startswith("tcp://"):
        # Rank 0 would wait for hosts that it cannot let in.
        if not os.environ.get("DISTWRAP_JOB_KEY"):
            raise refuse(
                "init_process_group", "a job on several hosts, which meets at "
                f"{name}, needs the job's key, and DISTWRAP_JOB_KEY is not set",
                "make a key by `distwrap run --make-key FILE`, copy FILE to all "
                "hosts and set DISTWRAP_JOB_KEY=file:FILE there; in a closed "
                "network, where everybody may join, set DISTWRAP_JOB_KEY=none",
                AUTH_FAILED)
        return name
    other = name.rpartition("@")[2]
    if other != host:
        raise refuse(
            "init_process_group", f"rank {rank} runs on the host {host} and "
            f"rank 0 on {other}, which has all ranks by its variables "
            "WORLD_SIZE and LOCAL_WORLD_SIZE",
            "start the ranks by torchrun, or set both variables on all hosts",
            UNSUPPORTED)
    return f"file:///distwrap-torch/{name}"


class _Session:
    """A session, closed with the last of its groups."""

    def __init__(self, store, rank, size, timeout):
        method = _meeting_name(store, rank, size, timeout)
        seconds = timeout.total_seconds()
        try:
            self.core = begin_session({
                "init_method": method, "rank": rank, "world_size": size,
                "timeout": seconds, "init_timeout": seconds})
        except DistError as error:
            raise translate(error) from None
        self.is_open = True

    def close(self):
        if self.is_open:
            self.is_open = False
            self.core.close()


class Existing:
    """A session that the facade ends."""

    def __init__(self, core):
        self.core = core

    @property
    def is_open(self):
        return self.core._is_open()


class Membership:
    """This rank's place in one group: `core` is the group of the binding.
    closed: called at the end of a world that the facade ends itself."""

    def __init__(self, core, session, owns_session, closed=None):
        self.core = core
        self.session = session
        self._owns_session = owns_session
        self._closed = closed
        self._is_open = True
        self._aborted = False

    def ranks(self):
        """The group's members as ranks of its session's world."""
        return _core.get_process_group_ranks(self.core)

    def split(self, ranks, timeout):
        """The group of these members of this one, which the members make."""
        mine = self.ranks()
        return _member_group(self.session, [mine[i] for i in ranks], timeout)

    def abort(self):
        """Fails all operations of the group, on all members."""
        self._aborted = True
        _core.abort(self.core)

    def close(self):
        """Ends the group, and the session with its world."""
        global _world
        if not self._is_open:
            return
        self._is_open = False
        if self._owns_session or self._closed is not None:
            if _world is not None and _world() is self.session:
                _world = None
        if self._owns_session:
            self.session.close()
        elif self._closed is not None:
            self._closed()
        elif self.session.is_open:
            _core._destroy(self.core)


@contextlib.contextmanager
def handing(membership):
    """The next group that c10d makes is that of this Membership."""
    global _handed
    _handed = membership
    try:
        yield
    finally:
        _handed = None


def core_of(group):
    """The binding's group of a ProcessGroup of PyTorch; None when another
    backend serves it, or when it is no group."""
    if not isinstance(group, ProcessGroup):
        return None
    backend = group
    if not hasattr(backend, "_membership"):
        try:
            backend = group._get_backend(torch.device("cpu"))
        except RuntimeError:  # no backend for the CPU
            return None
        # PyTorch's wrapper for debugging.
        backend = getattr(backend, "wrapped_pg", backend)
        backend = getattr(backend, "python_form", backend)
    membership = getattr(backend, "_membership", None)
    return None if membership is None else membership.core


def join(store, rank, size, timeout, global_ranks):
    """The Membership of a group of c10d. global_ranks: [] for the world."""
    global _handed, _world
    if _handed is not None:
        handed, _handed = _handed, None
        if not global_ranks:
            _world = weakref.ref(handed.session)
        return handed
    world = _world() if _world is not None else None
    if global_ranks and world is not None and world.is_open:
        return _member_group(world, global_ranks, timeout)
    session = _Session(store, rank, size, timeout)
    if not global_ranks:
        _world = weakref.ref(session)
    return Membership(session.core.world(), session, True)


def _member_group(session, world_ranks, timeout):
    # c10d's names are not used: those of members that have made different
    # groups before can differ.
    shown = world_ranks[:8] + ["and so on"] * (len(world_ranks) > 8)
    description = "ranks " + ", ".join(map(str, shown))

    def make():
        return _core._new_group(world_ranks, timeout.total_seconds(), None,
                                None, True, description, None, False)

    try:
        core = _bound(session.core, make)
    except DistError as error:
        raise translate(error) from None
    return Membership(core, session, False)


def _bound(session, function):
    """function() in a thread that is bound to the session. A session that the
    program has bound to this thread stays."""
    def run():
        _core.bind_session(session)
        try:
            return function()
        finally:
            _core.bind_session(None)

    if not _core.is_initialized():
        return run()
    result = []

    def catch():
        try:
            result.append((True, run()))
        except BaseException as error:
            result.append((False, error))

    thread = threading.Thread(target=catch, name="dw-new-group")
    thread.start()
    thread.join()
    is_made, value = result[0]
    if not is_made:
        raise value
    return value
