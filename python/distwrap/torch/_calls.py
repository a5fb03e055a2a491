"""The calls of a c10d backend over the binding, for both forms of the class."""

from datetime import timedelta

from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp

from .. import _core
from ..errors import DistError
from ..reduce_op import PremulSum
from ._errors import lacks, refuse, translate
from ._tensors import is_plain, read, reduced, written
from ._work import FINISHED, Work

# Numbers of our ReduceOp by the hash of PyTorch's, which is its own number.
_NAMES = {"SUM": 1, "PRODUCT": 2, "MIN": 3, "MAX": 4, "BAND": 5, "BOR": 6,
          "BXOR": 7, "AVG": 8}
_PREMUL_SUM = -1
_NUMBERS = {hash(ReduceOp(getattr(ReduceOp, name))): number
            for name, number in _NAMES.items()}
_NUMBERS[hash(c10d._make_nccl_premul_sum(1.0))] = _PREMUL_SUM
assert len(_NUMBERS) == len(_NAMES) + 1, "hashes of ReduceOp are not distinct"


def _reduction(op, call):
    number = _NUMBERS.get(hash(op))
    if number is None:
        raise refuse(call, f"Unsupported ReduceOp: {op}",
                     "give a ReduceOp, such as ReduceOp.SUM", 2)
    if number == _PREMUL_SUM:
        return PremulSum(_factor(op))
    return number


def _factor(op):
    """The factor of a PREMUL_SUM: a float, or a tensor of one element."""
    if hasattr(op, "factor"):
        return op.factor
    return op.__getstate__()[1]


def _one(tensors, call, name="tensors"):
    if len(tensors) != 1:
        raise refuse(call, f"{name} has {len(tensors)} items",
                     "give one tensor for each rank and process")
    return tensors[0]


# A limit that is not above it is unset.
_ZERO = timedelta()
_all_reduce = _core.all_reduce


class _Default:
    """The options of a call that gives none."""

    asyncOp = True
    timeout = timedelta(milliseconds=-1)
    rootRank = 0
    reduceOp = ReduceOp(ReduceOp.SUM)


_DEFAULT = _Default()


# Backends that were not shut down. C++ alone does not keep the object in Python
# of each of them: PyTorch's wrapper for debugging does not.
_alive = set()


class Calls:
    """The functions that c10d asks of a backend. Ranks and roots are ranks of the group."""

    def _set_up(self, membership, name, options):
        self._membership = membership
        self._name = name
        self._options = options
        self._group = membership.core
        self._sequence = 0
        self._batch = None
        _alive.add(self)

    # ---- the way of every operation ----

    def _run(self, function, arguments, opts, outputs, staged=None, **named):
        """Runs one operation of the binding: in this thread when the caller
        waits anyhow, else begun. In a coalesced block it is recorded."""
        self._sequence += 1
        limit = opts.timeout
        if limit > _ZERO:
            named["timeout"] = limit.total_seconds()
        batch = self._batch
        try:
            if batch is not None:
                batch.add(outputs, staged)
                function(*arguments, group=self._group, **named)
                return FINISHED
            if not opts.asyncOp:
                function(*arguments, group=self._group, **named)
                if staged is not None:
                    staged.finish()
                return FINISHED
            return Work(function(*arguments, group=self._group, async_op=True,
                                 **named), outputs, staged)
        except DistError as error:
            raise translate(error) from None

    def _run_batch(self, function, items, opts, outputs, staged=None, **named):
        """Runs the same operation on each item, together."""
        if len(items) == 1:
            return self._run(function, items[0], opts, outputs, staged, **named)
        if self._batch is not None:
            for item in items:
                self._run(function, item, opts, (), None, **named)
            self._batch.add(outputs, staged)
            return FINISHED
        if not items:
            return FINISHED
        self._start_batch()
        try:
            for item in items:
                self._run(function, item, opts, (), None, **named)
        finally:
            batch = self._end_batch()
        batch.add(outputs, staged)
        return self._submit(batch, opts.asyncOp)

    def _start_batch(self):
        self._batch = _Batch()

    def _end_batch(self):
        batch, self._batch = self._batch, None
        batch.core.end()
        return batch

    def _submit(self, batch, is_async):
        try:
            work = batch.core.submit(is_async)
        except DistError as error:
            raise translate(error) from None
        if is_async:
            return Work(work, batch.outputs, batch.staged())
        for staged in batch.copies:
            staged.finish()
        return FINISHED

    # ---- one to all, all to one, all to all ----

    def broadcast(self, tensors, opts=_DEFAULT):
        tensor = _one(tensors, "broadcast")
        core, staged = reduced(tensor, None, "broadcast")
        return self._run(_core.broadcast, (core,), opts, tensors, staged,
                         group_src=opts.rootRank)

    def allreduce(self, tensors, opts=_DEFAULT):
        # The call that every trainer makes most often goes straight down.
        if (self._batch is None and not opts.asyncOp and len(tensors) == 1 and
                is_plain(tensors[0]) and opts.timeout < _ZERO):
            number = _NUMBERS.get(hash(opts.reduceOp), 0)
            if number > 0:
                self._sequence += 1
                try:
                    _all_reduce(tensors[0], number, self._group)
                except DistError as error:
                    raise translate(error) from None
                return FINISHED
        tensor = _one(tensors, "all_reduce")
        core, staged = reduced(tensor, None, "all_reduce")
        return self._run(_core.all_reduce,
                         (core, _reduction(opts.reduceOp, "all_reduce")), opts,
                         tensors, staged)

    def allreduce_sparse(self, tensors, opts=_DEFAULT):
        raise lacks("allreduce_sparse", "give tensor.to_dense()")

    def allreduce_coalesced(self, tensors, opts=_DEFAULT):
        call, staged, items = "all_reduce", None, []
        op = _reduction(opts.reduceOp, call)
        for tensor in tensors:
            core, staged = reduced(tensor, staged, call)
            items.append((core, op))
        return self._run_batch(_core.all_reduce, items, opts, tensors, staged)

    def reduce(self, tensors, opts=_DEFAULT):
        tensor = _one(tensors, "reduce")
        core, staged = reduced(tensor, None, "reduce")
        op = _reduction(opts.reduceOp, "reduce")
        return self._run(_core.reduce, (core, None, op), opts, tensors, staged,
                         group_dst=opts.rootRank)

    # ---- gathering ----

    def allgather(self, output_lists, inputs, opts=_DEFAULT):
        call = "all_gather"
        given = read(_one(inputs, call, "inputs"), call)
        outputs = _one(output_lists, call, "outputs")
        cores, staged = _written_list(outputs, None, call, "tensor_list")
        return self._run(_core.all_gather, (cores, given), opts, outputs,
                         staged)

    def all_gather_single(self, output, given, opts=_DEFAULT):
        call = "all_gather_into_tensor"
        core, staged = written(output, None, call, "output_tensor")
        return self._run(_core.all_gather_into_tensor,
                         (core, read(given, call, "input_tensor")), opts,
                         [output], staged)

    def allgather_coalesced(self, output_lists, inputs, opts=_DEFAULT):
        """output_lists[rank][i] or, from older callers, output_lists[i][rank]
        gets inputs[i] of that rank."""
        call, staged, items = "all_gather", None, []
        size = self.size()
        for i, given in enumerate(inputs):
            outputs = (output_lists[i] if len(output_lists) == len(inputs) and
                       len(output_lists[i]) == size else
                       [one[i] for one in output_lists])
            cores, staged = _written_list(outputs, staged, call, "tensor_list")
            items.append((cores, read(given, call)))
        flat = [one for outputs in output_lists for one in outputs]
        return self._run_batch(_core.all_gather, items, opts, flat, staged)

    def all_gather_single_coalesced(self, outputs, inputs, opts=_DEFAULT):
        call, staged, items = "all_gather_into_tensor", None, []
        for output, given in zip(outputs, inputs, strict=True):
            core, staged = written(output, staged, call, "output_tensor")
            items.append((core, read(given, call, "input_tensor")))
        return self._run_batch(_core.all_gather_into_tensor, items, opts,
                               outputs, staged)

    def gather(self, output_lists, inputs, opts=_DEFAULT):
        call = "gather"
        given = read(_one(inputs, call, "inputs"), call)
        outputs, cores, staged = [], None, None
        if self.rank() == opts.rootRank:
            outputs = _one(output_lists, call, "outputs")
            cores, staged = _written_list(outputs, None, call, "gather_list")
        return self._run(_core.gather, (given, cores), opts, outputs, staged,
                         group_dst=opts.rootRank)

    def gather_single(self, output, given, opts=_DEFAULT):
        call, core, staged = "gather_into_tensor", None, None
        if self.rank() == opts.rootRank:
            core, staged = written(output, None, call, "output")
        return self._run(_core.gather_into_tensor,
                         (core, read(given, call, "input")), opts,
                         [] if core is None else [output], staged,
                         group_dst=opts.rootRank)

    # ---- scattering ----

    def scatter(self, outputs, input_lists, opts=_DEFAULT):
        call, given = "scatter", None
        output = _one(outputs, call, "outputs")
        core, staged = written(output, None, call)
        if self.rank() == opts.rootRank:
            given = [read(one, call, f"scatter_list[{i}]") for i, one in
                     enumerate(_one(input_lists, call, "inputs"))]
        return self._run(_core.scatter, (core, given), opts, outputs, staged,
                         group_src=opts.rootRank)

    def reduce_scatter(self, outputs, input_lists, opts=_DEFAULT):
        call = "reduce_scatter"
        output = _one(outputs, call, "outputs")
        core, staged = written(output, None, call, "output")
        given = [read(one, call, f"input_list[{i}]") for i, one in
                 enumerate(_one(input_lists, call, "inputs"))]
        return self._run(_core.reduce_scatter,
                         (core, given, _reduction(opts.reduceOp, call)), opts,
                         outputs, staged)

    def reduce_scatter_single(self, output, given, opts=_DEFAULT):
        call = "reduce_scatter_tensor"
        core, staged = written(output, None, call, "output")
        return self._run(_core.reduce_scatter_tensor,
                         (core, read(given, call, "input"),
                          _reduction(opts.reduceOp, call)), opts, [output],
                         staged)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=_DEFAULT):
        call, staged, items = "reduce_scatter_tensor", None, []
        op = _reduction(opts.reduceOp, call)
        for output, given in zip(outputs, inputs, strict=True):
            core, staged = written(output, staged, call, "output")
            items.append((core, read(given, call, "input"), op))
        return self._run_batch(_core.reduce_scatter_tensor, items, opts,
                               outputs, staged)

    # ---- exchanging ----

    def all_to_all_single(self, output, given, output_split_sizes,
                          input_split_sizes, opts=_DEFAULT):
        call = "all_to_all_single"
        core, staged = written(output, None, call, "output")
        return self._run(_core.all_to_all_single,
                         (core, read(given, call, "input"), output_split_sizes,
                          input_split_sizes), opts, [output], staged)

    def alltoall(self, outputs, inputs, opts=_DEFAULT):
        call = "all_to_all"
        cores, staged = _written_list(outputs, None, call, "output_tensor_list")
        given = [read(one, call, f"input_tensor_list[{i}]")
                 for i, one in enumerate(inputs)]
        return self._run(_core.all_to_all, (cores, given), opts, outputs,
                         staged)

    # ---- messages ----

    def send(self, tensors, dst, tag=0):
        given = read(_one(tensors, "send"), "send")
        return self._message(_core.isend, given, tag, (), None, group_dst=dst)

    def recv(self, tensors, src, tag=0):
        core, staged = written(_one(tensors, "recv"), None, "recv")
        return self._message(_core.irecv, core, tag, tensors, staged,
                             group_src=src)

    def recv_anysource(self, tensors, tag=0):
        raise lacks("recv(src=None)", "name the source")

    def _message(self, function, tensor, tag, outputs, staged, **peer):
        batch = self._batch
        try:
            work = function(tensor, None, self._group, tag, **peer)
        except DistError as error:
            raise translate(error) from None
        if batch is not None:
            batch.add(outputs, staged)
            return FINISHED
        return Work(work, outputs, staged)

    # ---- barriers ----

    def barrier(self, opts=_DEFAULT):
        return self._run(_core.barrier, (), opts, ())

    def monitored_barrier(self, opts=_DEFAULT, wait_all_ranks=False):
        self._sequence += 1
        named, limit = {}, opts.timeout
        if limit > _ZERO:
            named["timeout"] = limit.total_seconds()
        try:
            _core.monitored_barrier(self._group, **named)
        except DistError as error:
            raise translate(error) from None

    # ---- coalescing ----

    @property
    def supports_coalescing(self):
        return True

    def start_coalescing(self):
        if self._batch is not None:  # an exception has left its block
            self._end_batch()
        self._start_batch()

    def end_coalescing(self):
        if self._batch is None:
            raise refuse("end_coalescing", "no coalesced block is open",
                         "call start_coalescing first")
        batch = self._end_batch()
        return self._submit(batch, True) if len(batch.core) else FINISHED

    # ---- the group ----

    def getBackendName(self):
        return self._name

    def _set_sequence_number_for_group(self):
        """Numbers begin at 0 on every rank."""

    def _get_sequence_number_for_group(self):
        return self._sequence

    def set_timeout(self, timeout):
        _core.set_timeout(self._group, timeout.total_seconds())
        self._options._timeout = timeout

    def abort(self):
        self._membership.abort()

    def shutdown(self):
        _alive.discard(self)
        try:
            self._membership.close()
        except DistError as error:
            raise translate(error) from None

    # ---- older names ----

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    gather_into_tensor = gather_single

    # ---- refused by name ----

    def shrink(self, ranks_to_exclude, shrink_flags=0, opts_override=None):
        raise lacks("shrink", "make a new group of the ranks that remain")

    def reconfigure(self, opts):
        raise lacks("reconfigure", "destroy the process group and start anew")


class _Batch:
    """The operations of one coalesced block."""

    def __init__(self):
        self.core = _core._Batch()
        self.outputs = []
        self.copies = []
        self.core.begin()

    def add(self, outputs, staged):
        self.outputs.extend(outputs)
        if staged is not None:
            self.copies.append(staged)

    def staged(self):
        return self if self.copies else None

    def finish(self):
        for staged in self.copies:
            staged.finish()


def _written_list(tensors, staged, call, name):
    cores = []
    for i, tensor in enumerate(tensors):
        core, staged = written(tensor, staged, call, f"{name}[{i}]")
        cores.append(core)
    return cores, staged
