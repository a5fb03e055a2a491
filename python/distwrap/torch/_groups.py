"""Sessions and groups behind c10d's groups.

c10d's world is a session of its own, whose ranks meet under a random name that
rank 0 puts into c10d's store; nothing else goes there. The members of another
group make it from that world, and need nothing from the ranks outside. A group
beside a foreign world is a session of its own.
"""

import secrets
import socket
import threading
import weakref

from torch.distributed import DistStoreError

from .. import _core
from ..errors import DistError
from ..groups import begin_session
from ._errors import UNSUPPORTED, refuse, translate

_KEY = "distwrap"

# The session of c10d's world while that world is ours.
_world = None


def _meeting_name(store, rank, size, timeout):
    """The init_method of a session whose ranks have this store in common."""
    if size == 1:
        return None
    host = socket.gethostname()
    try:
        if rank == 0:
            name = f"{secrets.token_hex(16)}@{host}"
            store.set(_KEY, name)
        else:
            store.wait([_KEY], timeout)
            name = store.get(_KEY).decode()
    except DistStoreError:
        raise
    except RuntimeError as error:
        raise DistStoreError(
            f"distwrap: rank {rank} of {size} could not learn from PyTorch's "
            f"store where the ranks meet: {error}. Next: see whether rank 0 "
            "has failed before") from error
    other = name.rpartition("@")[2]
    if other != host:
        raise refuse(
            "init_process_group", f"rank {rank} runs on the host {host} and "
            f"rank 0 on {other}, but this version joins ranks of one host only",
            "start all ranks on one host, or use another backend", UNSUPPORTED)
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


class Membership:
    """This rank's place in one group: `core` is the group of the binding."""

    def __init__(self, core, session, owns_session):
        self.core = core
        self._session = session
        self._owns_session = owns_session
        self._is_open = True
        self._aborted = False

    def ranks(self):
        """The group's members as ranks of its session's world."""
        return _core.get_process_group_ranks(self.core)

    def split(self, ranks, timeout):
        """The group of these members of this one, which the members make."""
        mine = self.ranks()
        return _member_group(self._session, [mine[i] for i in ranks], timeout)

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
        if self._owns_session:
            if _world is not None and _world() is self._session:
                _world = None
            self._session.close()
        elif self._session.is_open:
            _core._destroy(self.core)


def join(store, rank, size, timeout, global_ranks):
    """The Membership of a group of c10d. global_ranks: [] for the world."""
    global _world
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
