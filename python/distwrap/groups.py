"""Start and end of the process group, and groups of ranks."""

import atexit

from . import _core, _interrupt
from . import guard as _guard


def init_process_group(backend=None, init_method=None, timeout=None,
                       world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None, *, hints=None,
                       init_timeout=None, straggler=None, check=None,
                       drop_in=None, use_torchcomms=None, guard=None):
    """Joins the job and makes its world, on all ranks.

    Without rank and world_size the launcher's hold: `distwrap run`, torchrun,
    mpirun, srun. backend: "auto" by default, "gloo", "cpu:shm,cuda:nccl".
    timeout, init_timeout, straggler: seconds or a timedelta. hints: options of
    the backends, by name. check=False: ranks do not compare their calls.
    guard: off, warn, block or require: whether calls of other libraries are
    refused (docs/guard.md). pg_options is ignored. use_torchcomms is drop_in
    under its name in torch.

    MPI: MPI_Init. NCCL: ncclCommInitRank.
    """
    del pg_options
    options = _options(backend, init_method, timeout, world_size, rank, store,
                       group_name, device_id, hints, init_timeout, straggler,
                       check, use_torchcomms if drop_in is None else drop_in,
                       guard)
    _begin(True, options)
    _guard.sync()


def create_session(backend=None, init_method=None, timeout=None, world_size=-1,
                   rank=-1, store=None, group_name="", device_id=None, *,
                   hints=None, init_timeout=None, straggler=None, check=None,
                   drop_in=None, guard=None):
    """Joins a job as init_process_group does, for a library inside a program:
    no thread is bound, and calls name a group of the Session returned."""
    session = _begin(False, _options(
        backend, init_method, timeout, world_size, rank, store, group_name,
        device_id, hints, init_timeout, straggler, check, drop_in, guard))
    _guard.sync()
    return session


def begin_session(options):
    """A session of these fields of InitOptions, for which the Python door stays
    as it is."""
    session = _core._start(False, options)
    _sessions.append(session)
    return session


def _begin(binds, options):
    """A session for which Ctrl-C ends waits of the main thread, the start
    included."""
    _interrupt.watch()
    try:
        session = _core._start(binds, options)
    except BaseException:
        if not _sessions:
            _interrupt.stop()
        raise
    _sessions.append(session)
    return session


def destroy_process_group(group=None):
    """Ends a group and those split from it; without one, the session.

    MPI: MPI_Finalize. NCCL: ncclCommDestroy.
    """
    _core._destroy(group)
    _guard.sync()


def new_group(ranks=None, timeout=None, backend=None, pg_options=None,
              use_local_synchronization=False, group_desc=None, device_id=None,
              *, hints=None, sort_ranks=True):
    """Makes a group of these ranks of the world (None: all). All ranks of the
    world call, or with use_local_synchronization the members alone. A rank
    outside of it gets GroupMember.NON_GROUP_MEMBER. sort_ranks=False: a rank's
    place in the list is its rank in the group.

    MPI: MPI_Comm_create_group.
    """
    del pg_options
    return _core._new_group(ranks, timeout, backend, hints,
                            use_local_synchronization, group_desc,
                            _index_of(device_id), sort_ranks)


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None,
                group_desc=None, *, hints=None, backend=None):
    """Splits a group (None: the world) by lists of ranks of the parent, equal on
    all of them. The list that names this rank becomes its group.

    MPI: MPI_Comm_split. NCCL: ncclCommSplit.
    """
    del pg_options
    return _core._split_group(parent_pg, split_ranks, timeout, hints,
                              group_desc, backend)


def split_group_by_color(color, key=0, parent_pg=None, timeout=None,
                         group_desc=None, *, hints=None, backend=None):
    """Splits a group: ranks of one color form one, ordered by key and rank. A
    negative color: none. MPI: MPI_Comm_split."""
    return _core._split_group_by_color(color, key, parent_pg, timeout, hints,
                                       group_desc, backend)


def capabilities(group=None, device=None):
    """What the group's backend does: {"all_reduce": ["u8", ...], ...}, and
    "all_reduce/sum" for each reduction. device: (type, index) of DLPack."""
    texts = [text.split() for text in _core._capabilities(group, device)]
    return {words[0]: words[1:] for words in texts}


class _World:
    """The namespace `group` of torch.distributed."""

    @property
    def WORLD(self):
        """The group of all ranks; None without a session."""
        return _core._world() if _core.is_initialized() else None


class GroupMember(_World):
    """What tells members from others, as in torch.distributed."""

    NON_GROUP_MEMBER = _core._no_member()


group = _World()

# Sessions that this process has started, for its end.
_sessions = []


def _index_of(device):
    index = getattr(device, "index", device)  # of a torch.device
    return device if callable(index) else index


def _options(backend, init_method, timeout, world_size, rank, store, group_name,
             device_id, hints, init_timeout, straggler, check, drop_in, guard):
    return {
        "backend": backend, "init_method": init_method, "timeout": timeout,
        "world_size": None if world_size in (None, -1) else world_size,
        "rank": None if rank in (None, -1) else rank, "store": store,
        "group_name": group_name or None, "device_id": _index_of(device_id),
        "hints": hints, "init_timeout": init_timeout, "straggler": straggler,
        "check": check, "drop_in": drop_in, "guard": guard,
    }


@atexit.register
def _close_all():
    """Ends what the program has not ended, while threads of sessions can still
    take the interpreter's lock."""
    for session in _sessions:
        try:
            session.close(0.5)
        except Exception:  # at the end of a program nobody can act on it
            pass
    _sessions.clear()
    _interrupt.stop()
    _core._end()
