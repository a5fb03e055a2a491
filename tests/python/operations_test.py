"""Every operation against a reference in NumPy: element types, reductions,
sizes, ways to call.

  TEST_EVERY=N takes each N-th combination; 1, the default, takes all.

Each rank knows the inputs of all ranks, so it computes what every call has to
give. Outputs are slices in the middle of larger arrays and are full of a
pattern before the call; the pattern around them has to stay, and each input
has to keep its bytes.
"""

import functools
import itertools
import mmap
import os
import threading

import ml_dtypes  # names bfloat16 to NumPy
import numpy as np

import distwrap as dist
from support import check, equal, main, rank, refused, size

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "bfloat16", "f4",
         "f8", "?")
HALVES = (np.float16, ml_dtypes.bfloat16)
SIZES = (0, 1, 7, 1000, 100000)
REDUCTIONS = tuple(dist.ReduceOp)
PATTERN = 0xA5
MARGIN = 64
EVERY = int(os.environ.get("TEST_EVERY") or 1)

Op = dist.ReduceOp
_state = threading.local()


def is_float(dtype):
    return np.dtype(dtype).kind == "f" or np.dtype(dtype) == ml_dtypes.bfloat16


# ---- memory ----

@functools.lru_cache(maxsize=None)
def numbers(dtype, count, owner):
    """The elements that a rank gives. Sums and products of the floats are
    exact, so the order of a reduction does not matter."""
    random = np.random.default_rng((count, owner, ord(dtype[0])))
    kind = np.dtype(dtype)
    if kind.kind == "b":
        made = random.integers(0, 2, count).astype(kind)
    elif is_float(kind):
        made = random.integers(-4, 5, count).astype(kind)
        if count >= 1000 and owner == 0:
            made[5], made[6] = np.nan, np.inf
    else:
        limits = np.iinfo(kind)
        made = random.integers(limits.min, limits.max, count, dtype=kind,
                               endpoint=True)
    made.flags.writeable = False
    return made


class Memory:
    """The arrays of one call."""

    def __init__(self):
        self._inputs, self._outputs = [], []

    def input(self, values, writable=False):
        """A copy of these elements, in the middle of a larger array."""
        array = self._slice(values.dtype, values.shape)[1]
        array[...] = values
        array.flags.writeable = writable
        self._inputs.append((array, array.tobytes()))
        return array

    def output(self, dtype, shape):
        whole, array = self._slice(np.dtype(dtype), shape)
        self._outputs.append((whole, array.nbytes))
        return array

    def inout(self, values):
        array = self.output(values.dtype, values.shape)
        array[...] = values
        return array

    @staticmethod
    def _slice(dtype, shape):
        count = int(np.prod(shape))
        whole = np.full(count * dtype.itemsize + 2 * MARGIN, PATTERN, np.uint8)
        part = whole[MARGIN:MARGIN + count * dtype.itemsize]
        return whole, part.view(dtype).reshape(shape)

    def check(self, told):
        for array, before in self._inputs:
            check(array.tobytes() == before, told, "changed its input")
        for whole, count in self._outputs:
            check((whole[:MARGIN] == PATTERN).all()
                  and (whole[MARGIN + count:] == PATTERN).all(),
                  told, "wrote beside its output")


def is_untouched(array):
    return (np.frombuffer(array.tobytes(), np.uint8) == PATTERN).all()


def same(got, expected, told):
    check(got.shape == expected.shape and got.dtype == expected.dtype, told,
          "has another shape or type")
    if not np.array_equal(got, expected, equal_nan=is_float(got.dtype) or got.dtype.kind == "c"):
        place = next(i for i, (a, b) in enumerate(
            zip(got.ravel(), expected.ravel())) if not (a == b))
        raise AssertionError(f"{told}: element {place} is "
                             f"{got.ravel()[place]}, expected "
                             f"{expected.ravel()[place]}")


# ---- ways to call ----

def call(way, function, *arguments, **named):
    if way == "sync":
        equal(function(*arguments, **named), None)
    elif way == "async":
        work = function(*arguments, async_op=True, **named)
        equal(work.wait(), True)
        equal((work.is_completed(), work.is_success(), work.exception()),
              (True, True, None))
    elif way == "batch":
        with dist.batch() as batch:
            equal(function(*arguments, **named), None)
        equal((len(batch), batch.work), (1, None))
    else:
        with dist.batch(async_op=True) as batch:
            function(*arguments, **named)
        equal(batch.wait(), True)
        equal(batch.item(0).wait(), True)


WAYS = ("sync", "async", "batch", "async batch")


def combinations(*lists):
    """The combinations that this run takes, with a way to call for each."""
    if not hasattr(_state, "next"):
        _state.next = 0
    for parts in itertools.product(*lists):
        _state.next += 1
        if _state.next % EVERY == 0:
            yield (*parts, WAYS[(_state.next // EVERY) % len(WAYS)])


# ---- the reference ----

@functools.lru_cache(maxsize=64)
def reduction(op, dtype, count, ranks):
    """The reduction of the elements of these ranks."""
    return reduced(op, [numbers(dtype, count, r) for r in ranks])


def reduced(op, inputs):
    kind = inputs[0].dtype
    wide = [x.astype(np.float32) if kind in HALVES else x for x in inputs]
    if kind.kind == "b":
        function = {Op.SUM: np.logical_or, Op.MAX: np.logical_or,
                    Op.BOR: np.logical_or, Op.PRODUCT: np.logical_and,
                    Op.MIN: np.logical_and, Op.BAND: np.logical_and,
                    Op.BXOR: np.logical_xor}[op]
        return functools.reduce(function, wide)
    function = {Op.SUM: np.add, Op.AVG: np.add, Op.PRODUCT: np.multiply,
                Op.MIN: np.minimum, Op.MAX: np.maximum, Op.BAND: np.bitwise_and,
                Op.BOR: np.bitwise_or, Op.BXOR: np.bitwise_xor}[op]
    with np.errstate(all="ignore"):
        total = functools.reduce(function, wide)
        if op == Op.AVG and is_float(kind):
            total = total / total.dtype.type(len(inputs))
        elif op == Op.AVG:
            # Toward zero: NumPy's division rounds down.
            quotient = total // len(inputs)
            total = np.where((total < 0) & (quotient * len(inputs) != total),
                             quotient + 1, quotient)
        return total.astype(kind)


def has(op, dtype, scans=False):
    kind = np.dtype(dtype).kind
    if op == Op.AVG:
        return kind != "b" and not scans
    return op not in (Op.BAND, Op.BOR, Op.BXOR) or not is_float(dtype)


def everyone():
    return tuple(range(size()))


def parts(total):
    """Uneven numbers of rows, zeros among them, that make up `total`."""
    weights = [0 if i == 1 else i + 1 for i in range(size())]
    split = [total * weight // sum(weights) for weight in weights]
    split[0] += total - sum(split)
    return split


def slices(array, split):
    ends = np.cumsum(split)
    return [array[end - rows:end] for rows, end in zip(split, ends)]


# ---- the cases ----

def test_all_reduce():
    for dtype, op, count, way in combinations(TYPES, REDUCTIONS, SIZES):
        if not has(op, dtype):
            continue
        memory, told = Memory(), f"all_reduce {dtype} {op.name} {count} {way}"
        x = memory.inout(numbers(dtype, count, rank()))
        call(way, dist.all_reduce, x, op)
        memory.check(told)
        same(x, reduction(op, dtype, count, everyone()), told)


def test_reduce():
    for dtype, op, count, way in combinations(TYPES, REDUCTIONS, SIZES):
        if not has(op, dtype):
            continue
        memory, told = Memory(), f"reduce {dtype} {op.name} {count} {way}"
        root, own = count % size(), numbers(dtype, count, rank())
        x = memory.inout(own)
        call(way, dist.reduce, x, root, op)
        memory.check(told)
        same(x, reduction(op, dtype, count, everyone()) if rank() == root
             else own, told)


def test_scans():
    for dtype, op, count, way in combinations(TYPES, REDUCTIONS, SIZES):
        if not has(op, dtype, scans=True):
            continue
        for function, ranks in ((dist.scan, everyone()[:rank() + 1]),
                                (dist.exscan, everyone()[:rank()])):
            memory = Memory()
            told = f"{function.__name__} {dtype} {op.name} {count} {way}"
            x = memory.input(numbers(dtype, count, rank()))
            y = memory.output(dtype, count)
            call(way, function, y, x, op)
            memory.check(told)
            if ranks:
                same(y, reduction(op, dtype, count, ranks), told)
            else:
                check(is_untouched(y), told, "wrote on rank 0")


def test_reduce_scatter():
    for dtype, op, count, way in combinations(TYPES, REDUCTIONS, SIZES):
        if not has(op, dtype):
            continue
        split = parts(count)
        total = reduction(op, dtype, count, everyone())
        mine = slices(total, split)[rank()]
        own = numbers(dtype, count, rank())
        told = f"reduce_scatter {dtype} {op.name} {count} {way}"
        memory = Memory()
        ins = [memory.input(part) for part in slices(own, split)]
        out = memory.output(dtype, split[rank()])
        call(way, dist.reduce_scatter, out, ins, op)
        memory.check(told)
        same(out, mine, told)

        memory = Memory()
        out = memory.output(dtype, split[rank()])
        call(way, dist.reduce_scatter_v, out, memory.input(own), split, op)
        memory.check(told + " v")
        same(out, mine, told + " v")

        each = count // size()
        memory = Memory()
        out = memory.output(dtype, each)
        call(way, dist.reduce_scatter_tensor, out,
             memory.input(own[:each * size()]), op)
        memory.check(told + " tensor")
        same(out, total[rank() * each:(rank() + 1) * each], told + " tensor")


def test_premul_sum():
    for dtype, count, way in combinations(("f2", "bfloat16", "f4", "f8"), SIZES):
        memory, told = Memory(), f"premul_sum {dtype} {count} {way}"
        x = memory.inout(numbers(dtype, count, rank()))
        factors = [0.5 * (r + 1) for r in everyone()]
        op = Op.premul_sum(
            factors[rank()] if count % 2 == 0
            else np.array([factors[rank()]], dtype))
        call(way, dist.all_reduce, x, op)
        memory.check(told)
        with np.errstate(all="ignore"):
            expected = sum(numbers(dtype, count, r).astype("f8") * factors[r]
                           for r in everyone()).astype(dtype)
        same(x, expected, told)


def test_broadcast():
    for dtype, count, way in combinations(TYPES, SIZES):
        memory, told = Memory(), f"broadcast {dtype} {count} {way}"
        root = (count + 1) % size()
        values = numbers(dtype, count, root)
        x = (memory.inout(values) if rank() == root
             else memory.output(dtype, count))
        call(way, dist.broadcast, x, group_src=root)
        memory.check(told)
        same(x, values, told)


def test_gathers():
    for dtype, count, way in combinations(TYPES, SIZES):
        told = f"{dtype} {count} {way}"
        all_inputs = [numbers(dtype, count, r) for r in everyone()]
        own, stacked = all_inputs[rank()], np.stack(all_inputs)
        memory = Memory()
        out, flat = (memory.output(dtype, (size(), count)),
                     memory.output(dtype, size() * count))
        call(way, dist.all_gather_into_tensor, out, memory.input(own))
        call(way, dist.all_gather_into_tensor, flat, memory.input(own))
        memory.check("all_gather_into_tensor " + told)
        same(out, stacked, "all_gather_into_tensor " + told)
        same(flat, stacked.ravel(), "all_gather_into_tensor " + told)

        # Uneven: each rank's own number of rows, of two elements.
        split = [rows // 2 for rows in parts(count)]
        uneven = [x[:2 * rows].reshape(rows, 2)
                  for x, rows in zip(all_inputs, split)]
        memory = Memory()
        outs = [memory.output(dtype, part.shape) for part in uneven]
        packed = memory.output(dtype, (sum(split), 2))
        call(way, dist.all_gather, outs, memory.input(uneven[rank()]))
        call(way, dist.all_gather_v, packed, memory.input(uneven[rank()]),
             split)
        memory.check("all_gather " + told)
        for got, expected in zip(outs, uneven):
            same(got, expected, "all_gather " + told)
        same(packed, np.concatenate(uneven), "all_gather_v " + told)

        root = (count + 2) % size()
        is_root = rank() == root
        memory = Memory()
        outs = ([memory.output(dtype, part.shape) for part in uneven]
                if is_root else None)
        packed = memory.output(dtype, (sum(split), 2)) if is_root else None
        equals = memory.output(dtype, (size(), count)) if is_root else None
        call(way, dist.gather, memory.input(uneven[rank()]), outs, root)
        call(way, dist.gather_into_tensor, packed,
             memory.input(uneven[rank()]), root, split)
        call(way, dist.gather_into_tensor, equals, memory.input(own),
             group_dst=root)
        memory.check("gather " + told)
        if is_root:
            for got, expected in zip(outs, uneven):
                same(got, expected, "gather " + told)
            same(packed, np.concatenate(uneven), "gather_into_tensor " + told)
            same(equals, stacked, "gather_into_tensor " + told)


def test_scatters():
    for dtype, count, way in combinations(TYPES, SIZES):
        told = f"{dtype} {count} {way}"
        root, split = (count + 3) % size(), parts(count)
        given = numbers(dtype, count, root)
        expected = slices(given, split)[rank()]
        memory = Memory()
        ins = whole = equals = None
        each = count // size()
        if rank() == root:
            ins = [memory.input(part) for part in slices(given, split)]
            whole = memory.input(given)
            equals = memory.input(given[:each * size()])
        out, packed, even = (memory.output(dtype, expected.shape),
                             memory.output(dtype, expected.shape),
                             memory.output(dtype, each))
        call(way, dist.scatter, out, ins, root)
        call(way, dist.scatter_tensor, packed, whole, root, split)
        call(way, dist.scatter_tensor, even, equals, group_src=root)
        memory.check("scatter " + told)
        same(out, expected, "scatter " + told)
        same(packed, expected, "scatter_tensor " + told)
        same(even, given[rank() * each:(rank() + 1) * each],
             "scatter_tensor " + told)


def test_all_to_all():
    for dtype, count, way in combinations(TYPES, SIZES):
        told = f"{dtype} {count} {way}"
        # Rank a sends rows(a, b) rows of two elements to rank b.
        unit = count // (2 * size() * size() + 2)

        def rows(a, b, unit=unit):
            return 0 if (a + b) % 3 == 1 else unit * (1 + (a + 2 * b) % size())

        inputs = []
        for a in everyone():
            split = [rows(a, b) for b in everyone()]
            inputs.append(slices(numbers(dtype, count, a)[:2 * sum(split)]
                                 .reshape(sum(split), 2), split))
        expected = [inputs[a][rank()] for a in everyone()]
        memory = Memory()
        outs = [memory.output(dtype, part.shape) for part in expected]
        ins = [memory.input(part) for part in inputs[rank()]]
        call(way, dist.all_to_all, outs, ins)
        memory.check("all_to_all " + told)
        for got, part in zip(outs, expected):
            same(got, part, "all_to_all " + told)

        memory = Memory()
        one = memory.output(dtype, (sum(map(len, expected)), 2))
        call(way, dist.all_to_all_single, one,
             memory.input(np.concatenate(inputs[rank()])),
             [len(part) for part in expected],
             [len(part) for part in inputs[rank()]])
        memory.check("all_to_all_single " + told)
        same(one, np.concatenate(expected), "all_to_all_single " + told)

        each = count // size()
        memory = Memory()
        out = memory.output(dtype, each * size())
        call(way, dist.all_to_all_single, out,
             memory.input(numbers(dtype, count, rank())[:each * size()]))
        memory.check("all_to_all_single " + told)
        same(out, np.concatenate(
            [numbers(dtype, count, a)[rank() * each:(rank() + 1) * each]
             for a in everyone()]), "all_to_all_single " + told)


def test_messages():
    """Around the ring: each rank to the next."""
    to, source = (rank() + 1) % size(), (rank() - 1) % size()
    for dtype, count, way in combinations(TYPES, SIZES):
        told = f"messages {dtype} {count} {way}"
        memory = Memory()
        x = memory.input(numbers(dtype, count, rank()))
        y = memory.output(dtype, count)
        if way == "sync" and size() > 1:
            # The ranks of even numbers send first; an odd ring has a rank that
            # receives from an equal one, which waits for it to receive.
            if rank() % 2 == 0:
                equal(dist.send(x, to), None)
                equal(dist.recv(y, source), source)
            else:
                equal(dist.recv(y, source), source)
                equal(dist.send(x, to), None)
        elif way == "batch" and size() > 1:
            with dist.batch():
                equal(dist.send(x, to), None)
                equal(dist.recv(y, source), None)
        elif way == "async batch":
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, x, to),
                dist.P2POp(dist.irecv, y, group_peer=source)])
            equal(len(works), 2)
            dist.wait_all(works)
        else:
            works = [dist.isend(x, to), dist.irecv(y, source)]
            check(dist.wait_any(works) in (0, 1))
            for work in works:
                equal(work.wait(), True)
        memory.check(told)
        same(y, numbers(dtype, count, source), told)


def test_tags():
    """Messages of other tags wait, in whichever order they were sent."""
    to, source = (rank() + 1) % size(), (rank() - 1) % size()
    tags = [3, 0, 2 ** 31 - 1, 7]
    works = [dist.isend(np.full(4, 100 * rank() + i, "i4"), to, tag=tag)
             for i, tag in enumerate(tags)]
    for i in (2, 0, 3, 1):
        x = np.zeros(4, "i4")
        if size() > 1:
            equal(dist.recv(x, source, tag=tags[i]), source)
        else:
            dist.irecv(x, source, tag=tags[i]).wait()
        equal(x.tolist(), [100 * source + i] * 4)
    dist.wait_all(works)


def test_complex_numbers():
    """Complex numbers move as bytes; a sum or an average is that of the parts."""
    for dtype, way in itertools.product(("c8", "c16"), WAYS):
        mine = (np.arange(6) + 1j * (rank() + 1)).astype(dtype).reshape(2, 3)
        for op, factor in ((Op.SUM, size()), (Op.AVG, 1)):
            x = mine.copy()
            call(way, dist.all_reduce, x, op)
            expected = sum(np.arange(6) + 1j * (r + 1) for r in everyone())
            same(x, (expected * factor / size()).astype(dtype).reshape(2, 3),
                 f"all_reduce {dtype} {op.name}")
        out = np.zeros((size(), 2, 3), dtype)
        call(way, dist.all_gather_into_tensor, out, mine)
        same(out, np.stack([(np.arange(6) + 1j * (r + 1)).astype(dtype)
                            .reshape(2, 3) for r in everyone()]),
             "all_gather_into_tensor " + dtype)
        out = np.zeros((2, 3), dtype)
        total = np.concatenate([mine] * size())
        call(way, dist.reduce_scatter_tensor, out, total)
        same(out, sum((np.arange(6) + 1j * (r + 1)).reshape(2, 3)
                      for r in everyone()).astype(dtype),
             "reduce_scatter_tensor " + dtype)
    for op in set(REDUCTIONS) - {Op.SUM, Op.AVG}:
        error = refused(dist.all_reduce, np.ones(2, "c8"), op,
                        kind=ValueError, reason="kInvalidArgument")
        check("complex" in str(error), error)


def test_half_precision_sums_round_once():
    """Many halves of the smallest step: in 16 bits none would count."""
    for dtype, one, step in (("f2", 2048, 1),):
        x = np.full(9, one if rank() == 0 else step, dtype)
        dist.all_reduce(x)
        exact = np.float32(one + (size() - 1) * step)
        same(x, np.full(9, exact).astype(dtype), dtype)


def test_views_and_slices():
    whole = np.arange(24, dtype="i4").reshape(6, 4)
    part = whole[2:4]  # rows lie side by side
    dist.all_reduce(part)
    expected = np.arange(24, dtype="i4").reshape(6, 4)
    expected[2:4] *= size()
    same(whole, expected, "rows of a matrix")
    x = np.arange(8, dtype="f4")
    dist.all_reduce(x.reshape(2, 4))
    dist.all_reduce(x[3:5])
    same(x, np.array([0, 1, 2, 3 * size(), 4 * size(), 5, 6, 7], "f4")
         * size(), "a slice of a vector")
    dist.all_reduce(memoryview(x))
    # A length of 1 has no stride, so a column of one row lies side by side.
    one = np.ones((1, 5), "f4")[:, 2:3]
    dist.all_reduce(one)
    equal(one.item(), size())
    # In place by slices of one array.
    buffer = np.full(size() * 3, -1, "i4")
    mine = buffer[3 * rank():3 * rank() + 3]
    mine[:] = rank()
    dist.all_gather_into_tensor(buffer, mine)
    equal(buffer.tolist(), [r for r in everyone() for _ in range(3)])
    # Ten dimensions, and none.
    deep, flat = np.ones((1, 2) * 5, "i4"), np.array(1.5)
    dist.all_reduce(deep)
    dist.all_reduce(flat)
    equal((deep.sum(), flat.item()), (32 * size(), 1.5 * size()))


def pages_that_nobody_writes(values):
    """A copy in pages whose writer gets a signal."""
    file = os.memfd_create("fixed")
    os.write(file, values.tobytes())
    pages = mmap.mmap(file, values.nbytes, prot=mmap.PROT_READ)
    os.close(file)
    return np.frombuffer(pages, values.dtype)


def test_read_only_arrays_of_roots():
    """The root of a broadcast, and all others in a reduce, only read."""
    for count in (1, 100, 1 << 17):
        for root in everyone():
            fixed = pages_that_nobody_writes(np.full(count, rank() + 1, "i4"))
            for way in WAYS:
                told = f"{count} from {root} {way}"
                x = fixed if rank() == root else np.zeros(count, "i4")
                call(way, dist.broadcast, x, root)
                same(x, np.full(count, root + 1, "i4"), told)
                x = fixed.copy() if rank() == root else fixed
                call(way, dist.reduce, x, group_dst=root)
                if rank() == root:
                    same(x, np.full(count, sum(everyone()) + size(), "i4"),
                         told)
    # A scalar of NumPy is an input.
    x = np.float64(2) if rank() == 0 else np.array(0.0)
    dist.broadcast(x, 0)
    equal(x, 2)


def test_arrays_without_dimensions():
    own, places = np.float32(rank()), [np.array(-1, "f4") for _ in everyone()]
    ranks = [float(r) for r in everyone()]
    to, source = (rank() + 1) % size(), (rank() - 1) % size()

    def point(value=-1.0):
        return np.array(value, "f4")

    for way in WAYS:
        out = np.zeros(size(), "f4")
        call(way, dist.all_gather_into_tensor, out, own)
        equal(out.tolist(), ranks)
        call(way, dist.all_gather, places, own)
        equal([float(one) for one in places], ranks)
        x = point()
        call(way, dist.reduce_scatter_tensor, x, out)
        equal(x, rank() * size())
        call(way, dist.reduce_scatter, x, [own] * size())
        equal(x, sum(ranks))
        call(way, dist.scatter, x, places if rank() == 0 else None)
        equal(x, rank())
        call(way, dist.gather, own, places if rank() == 0 else None)
        call(way, dist.all_to_all, places, [own] * size())
        equal([float(one) for one in places], ranks)
        call(way, dist.scan, x, own)
        equal(x, sum(ranks[:rank() + 1]))
        call(way, dist.reduce, x, 0)
    x = point()
    dist.wait_all([dist.isend(own, to), dist.irecv(x, source)])
    equal(x, source)
    window = dist.Window(count=1, dtype="float32")
    window.put(own, to)
    window.flush(to)
    dist.barrier()
    window.get(x, rank())
    window.flush(rank())
    equal(x, source)
    window.destroy()


def test_strided_arrays_are_refused():
    strided = {"columns": np.ones((4, 4))[:, :2], "steps": np.ones(8)[::2],
               "transposed": np.ones((2, 3)).T, "backward": np.ones(4)[::-1],
               "broadcast": np.broadcast_to(np.ones(1), 4)}
    good = np.ones(8)
    for name, x in strided.items():
        for function, arguments in ((dist.all_reduce, (x,)),
                                    (dist.broadcast, (x, 0)),
                                    (dist.all_gather_into_tensor, (good, x)),
                                    (dist.all_gather_into_tensor, (x, good)),
                                    (dist.all_gather, ([x] * size(), good)),
                                    (dist.send, (x, 0)),
                                    (dist.irecv, (x, 0))):
            error = refused(function, *arguments, kind=ValueError,
                            reason="kInvalidArgument",
                            says=("strided", "numpy.ascontiguousarray"))
            equal(error.op, function.__name__, name)
    # An empty or a short one has no strides.
    dist.all_reduce(np.ones((4, 4))[:, :0])
    dist.all_reduce(np.ones((4, 1)).T)


def test_other_owners_of_memory():
    """The buffer protocol and __dlpack__, without NumPy's types."""
    import array

    class Wrapped:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **named):
            return self.inner.__dlpack__(**named)

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    x = array.array("d", [rank(), 1])
    dist.all_reduce(x)
    equal(list(x), [sum(everyone()), size()])
    raw = bytearray([1, 2])
    dist.all_reduce(raw)
    equal(list(raw), [size(), 2 * size()])
    inner = np.ones((2, 3), "f4")
    for way in WAYS:
        inner[:] = 1
        call(way, dist.all_reduce, Wrapped(inner))
        equal(inner.tolist(), [[size()] * 3] * 2)
    out = np.zeros((size(), 2, 3), "f4")
    fixed = inner.copy()
    fixed.flags.writeable = False
    dist.all_gather_into_tensor(Wrapped(out), Wrapped(fixed))
    same(out, np.stack([inner] * size()), "__dlpack__")
    refused(dist.all_reduce, Wrapped(fixed), kind=ValueError,
            says="read-only")
    refused(dist.all_reduce, Wrapped(np.ones((4, 4))[:, :2]), kind=ValueError,
            says="strided")


def test_many_works_at_once():
    arrays = [np.full(100 + i, rank() + i, "f8") for i in range(50)]
    works = [dist.all_reduce(x, async_op=True) for x in arrays]
    numbers_of = [work.seq() for work in works]
    equal(numbers_of, sorted(numbers_of))
    for i, work in reversed(list(enumerate(works))):
        work.wait()
        check((arrays[i] == sum(r + i for r in everyone())).all(), i)


def test_mixed_batch():
    to, source = (rank() + 1) % size(), (rank() - 1) % size()
    x, y = np.full(3, rank(), "i8"), np.full(3, -1, "i8")
    total, copy = np.full(5, rank() + 1.0), np.full(2, rank(), "u1")
    with dist.batch() as batch:
        dist.isend(x, to)
        dist.all_reduce(total)
        dist.barrier()
        dist.irecv(y, source)
        dist.broadcast(copy, 0)
    equal(len(batch), 5)
    equal((y.tolist(), copy.tolist()), ([source] * 3, [0, 0]))
    check((total == sum(r + 1 for r in everyone())).all(), total)
    # After an exception nothing has started, and the next call is the first.
    try:
        with dist.batch():
            dist.all_reduce(total)
            raise KeyError("stop")
    except KeyError:
        pass
    before = total.copy()
    dist.barrier()
    same(total, before, "a batch that did not start")
    with dist.batch() as empty:
        pass
    equal(len(empty), 0)


def test_barriers():
    for way in WAYS:
        call(way, dist.barrier)
    equal(dist.barrier(device_ids=[0]), None)
    equal(dist.monitored_barrier(), None)
    equal(dist.monitored_barrier(None, 10, wait_all_ranks=True), None)


if __name__ == "__main__":
    main(globals())
