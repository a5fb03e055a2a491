"""Start and end of the process group, and groups of ranks."""

import atexit

from . import _core, _interrupt, _modes
from . import guard as _guard


def init_process_group(backend=None, init_method=None, timeout=None,
                       world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None, *, hints=None,
                       init_timeout=None, straggler=None, check=None,
                       drop_in=None, use_torchcomms=None, guard=None,
                       mode=None):
    """Joins the job and makes its world, on all ranks.

    Without rank and world_size the launcher's hold: `distwrap run`, torchrun,
    mpirun, srun. backend: "auto" by default, "gloo", "cpu:shm,cuda:nccl".
    timeout, init_timeout, straggler: seconds or a timedelta. hints: options of
    the backends, by name. check=False: ranks do not compare their calls.
    guard: off, warn, block or require: whether calls of other libraries are
    refused (docs/guard.md). pg_options is ignored. use_torchcomms is drop_in
    under its name in torch. In a program with PyTorch the world is that of
    torch.distributed, too; mode="passthrough" makes none here, and the names of
    this package are then PyTorch's (docs/torch.md).

    MPI: MPI_Init. NCCL: ncclCommInitRank.
    """
    if _modes.mode_of(mode) == "passthrough":
        _modes.warn_of_unused({
            "hints": hints, "init_timeout": init_timeout, "straggler": straggler,
            "check": check, "drop_in": drop_in,
            "use_torchcomms": use_torchcomms, "guard": guard})
        _modes.pass_through(backend, init_method, timeout, world_size, rank,
                            store, group_name, pg_options, device_id)
        return
    del pg_options
    options = _options(backend, init_method, timeout, world_size, rank, store,
                       group_name, device_id, hints, init_timeout, straggler,
                       check, use_torchcomms if drop_in is None else drop_in,
                       guard)
    session = _begin(True, options)
    _guard.began(session)
    try:
        _modes.began(session)
    except BaseException:
        _core._destroy(None)
        _guard.sync()
        raise


def create_session(backend=None, init_method=None, timeout=None, world_size=-1,
                   rank=-1, store=None, group_name="", device_id=None, *,
                   hints=None, init_timeout=None, straggler=None, check=None,
                   drop_in=None, guard=None):
    """Joins a job as init_process_group does, for a library inside a program:
    no thread is bound, and calls name a group of the Session returned."""
    session = _begin(False, _options(
        backend, init_method, timeout, world_size, rank, store, group_name,
        device_id, hints, init_timeout, straggler, check, drop_in, guard))
    _guard.began(session)
    return session


def begin_session(options):
    """A session of these fields of InitOptions, for which the Python door stays
    as it is."""
    _interrupt.watch()
    _forget_closed()
    made = []
    _core._start(False, options, made)
    _sessions.extend(made)
    return made[0]


def _begin(binds, options):
    """A session for which Ctrl-C ends waits of the main thread, the start
    included."""
    _interrupt.watch()
    _forget_closed()
    _modes.another_session_begins()
    made = []
    try:
        _core._start(binds, options, made)
        _sessions.extend(made)
    except BaseException:
        # Ctrl-C may come when the session has just been made; nobody knows it.
        for session in made:
            session._give_up(binds)
        _forget_closed()
        if not _sessions:
            _interrupt.stop()
        raise
    return made[0]


def destroy_process_group(group=None):
    """Ends a group and those split from it; without one, the session.

    kTimedOut: a backend cannot end its part yet, as NCCL while a captured graph
    is left. Everything has ended nevertheless.

    MPI: MPI_Finalize. NCCL: ncclCommDestroy.
    """
    try:
        if not _modes.destroy(group):
            _core._destroy(group)
    finally:
        _forget_closed()
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
    return _modes.shown(_core._new_group(
        ranks, timeout, backend, hints, use_local_synchronization, group_desc,
        _index_of(device_id), sort_ranks))


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None,
                group_desc=None, *, hints=None, backend=None):
    """Splits a group (None: the world) by lists of ranks of the parent, equal on
    all of them. The list that names this rank becomes its group.

    MPI: MPI_Comm_split. NCCL: ncclCommSplit.
    """
    del pg_options
    return _modes.shown(_core._split_group(
        parent_pg, split_ranks, timeout, hints, group_desc, backend))


def split_group_by_color(color, key=0, parent_pg=None, timeout=None,
                         group_desc=None, *, hints=None, backend=None):
    """Splits a group: ranks of one color form one, ordered by key and rank. A
    negative color: none. MPI: MPI_Comm_split."""
    return _modes.shown(_core._split_group_by_color(
        color, key, parent_pg, timeout, hints, group_desc, backend))


def new_subgroups(group_size=None, group=None, timeout=None, backend=None,
                  pg_options=None, group_desc=None):
    """Splits a group (None: the world) into equal groups of consecutive ranks.
    All its ranks call. Returns this rank's group, and a list with one entry for
    each: this rank's own, and GroupMember.NON_GROUP_MEMBER for the others.
    ValueError for a size that does not divide the group's.

    MPI: MPI_Comm_split.
    """
    size = _core.get_world_size(group)
    if group_size is None or group_size < 1 or size % group_size != 0:
        raise _core._make_error(
            "new_subgroups", f"{size} ranks are no groups of {group_size}",
            "give a group_size that divides the number of ranks", 1)
    ranks = _core.get_process_group_ranks(group)
    return _subgroups(
        "new_subgroups", group,
        [ranks[i:i + group_size] for i in range(0, size, group_size)], timeout,
        backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None,
                                 backend=None, pg_options=None,
                                 group_desc=None):
    """Splits the world by lists of its ranks, equal on all ranks; no two name
    the same one. Returns this rank's group, NON_GROUP_MEMBER for a rank in no
    list, and a list as new_subgroups does.

    MPI: MPI_Comm_split.
    """
    return _subgroups("new_subgroups_by_enumeration", None,
                      ranks_per_subgroup_list, timeout, backend, pg_options,
                      group_desc)


def capabilities(group=None, device=None):
    """The operations of the group's backend: {"all_reduce": ["u8", ...], ...}, and
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
    """The value that tells members from others, as in torch.distributed."""

    NON_GROUP_MEMBER = _core._no_member()


group = _World()

# Sessions that this process has started, for its end.
_sessions = []


def _forget_closed():
    """Lets go of sessions that have been closed: each has two threads while
    somebody holds it."""
    _sessions[:] = [one for one in _sessions if one._is_open()]


def _subgroups(call, parent, lists, timeout, backend, pg_options, group_desc):
    del pg_options
    try:
        lists = [sorted(ranks) for ranks in lists]
    except TypeError:
        raise TypeError(f"{call}: the lists are of type "
                        f"{type(lists).__name__}. Next: give a list of lists "
                        "of ranks of the world") from None
    # split_group takes ranks of the parent.
    if parent is not None:
        place = {rank: i for i, rank in enumerate(
            _core.get_process_group_ranks(parent))}
        lists = [[place[rank] for rank in ranks] for ranks in lists]
    own = _core.get_rank(parent)
    mine = _modes.shown(_core._split_group(parent, lists, timeout, None,
                                           group_desc, backend))
    none = _modes.shown(GroupMember.NON_GROUP_MEMBER)
    return mine, [mine if own in ranks else none for ranks in lists]


def _index_of(device):
    index = getattr(device, "index", device)  # a torch.device has one
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
