"""Batches: operations that start together."""

from . import _core


class Batch:
    """The value of `with batch()`: after the block, `work` of all operations and
    `item(i)` of the i-th. len() is their number."""

    def __init__(self):
        self._core = _core._Batch()
        self._is_prepared = False
        self.work = None

    def prepare(self):
        """Called within the block, takes the place of the start at its end:
        prepares the recorded operation, one collective on host memory, and
        returns it as a PreparedOperation. All ranks call; they compare what
        each of them prepares once, and later starts check and compare nothing.
        Recording ends here.

            with dist.batch() as batch:
                dist.all_to_all_single(out, into, out_splits, in_splits)
                exchange = batch.prepare()
            for step in range(1000):
                exchange.start()

        Raises: kCallMismatch where the ranks' operations differ; the group
        stays whole. MPI: MPI_Allreduce_init and its like.
        """
        self._is_prepared = True
        return self._core.prepare()

    def item(self, index):
        """The Work of one operation, after the block of an asynchronous batch."""
        return self._core.item(index)

    def wait(self, timeout=None):
        """Waits for an asynchronous batch."""
        return True if self.work is None else self.work.wait(timeout)

    def __len__(self):
        return len(self._core)


class _Recording:
    def __init__(self, async_op):
        self._async_op = async_op

    def __enter__(self):
        self._batch = Batch()
        self._batch._core.begin()
        return self._batch

    def __exit__(self, kind, *error):
        core = self._batch._core
        core.end()
        if kind is None and not self._batch._is_prepared:
            self._batch.work = core.submit(self._async_op)


def batch(async_op=False):
    """Records the operations of the block and starts them together at its end;
    none waits for another. Inside, operations return None. After an exception
    nothing is started.

        with dist.batch() as both:
            dist.isend(x, 1)
            dist.irecv(y, 1)

    With async_op=True the block ends at once: both.wait(). NCCL: ncclGroupStart.
    """
    return _Recording(async_op)


class P2POp:
    """One message of batch_isend_irecv. op: isend or irecv, or torch's."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0,
                 group_peer=None):
        name = getattr(op, "__name__", str(op))
        if name not in ("isend", "irecv"):
            raise _core._make_error(
                "P2POp", f"Unknown P2P operation: {name}",
                "give isend or irecv", 11)
        self.op, self.tensor, self.peer = op, tensor, peer
        self.group, self.tag, self.group_peer = group, tag, group_peer
        self.receives = name == "irecv"


def batch_isend_irecv(p2p_op_list, *, timeout=None, label=None):
    """Starts messages together and returns a Work for each, in order.

    NCCL: ncclGroupStart, ncclGroupEnd.
    """
    for i, op in enumerate(p2p_op_list):
        if not isinstance(op, P2POp):
            raise TypeError(f"batch_isend_irecv: item {i} is of type "
                            f"{type(op).__module__}.{type(op).__qualname__}. "
                            "Next: give objects of distwrap.P2POp")
    return _core._batch_isend_irecv(
        [(op.receives, op.tensor, op.peer, op.group_peer, op.group, op.tag)
         for op in p2p_op_list], timeout=timeout, label=label)
