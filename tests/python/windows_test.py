"""Windows and the backend's memory in Python."""

import gc
import sys

import numpy as np

import distwrap as dist
from support import check, equal, main, rank, refused, size

N = 64


def next_rank():
    return (rank() + 1) % size()


def last_rank():
    return (rank() - 1) % size()


def test_ring_of_put_signal():
    window = dist.Window(count=N, dtype="float32")
    mine = window.memory()
    equal((mine.dtype, mine.shape), (np.dtype("f4"), (N,)))
    for step in range(1, 4):
        x = np.full(8, 10 * rank() + step, "f4")
        window.put_signal(x, next_rank(), 8 * step, 0, step, "set")
        window.wait_signal(0, step, "ge")
        check((mine[8 * step:8 * step + 8] == 10 * last_rank() + step).all())
    window.destroy()


def test_put_get_flush_fence():
    window = dist.Window(count=N + rank(), dtype="int64")
    mine = window.memory()
    mine[:] = -1
    dist.barrier()
    attr = window.get_attr(next_rank())
    check(isinstance(attr, dist.WindowAttr))
    equal((attr.count, attr.bytes), (N + next_rank(), 8 * (N + next_rank())))
    x = np.arange(4) + 100 * rank()
    window.put(x, next_rank(), offset=2)
    window.fence()
    window.flush(next_rank())
    window.flush()
    dist.barrier()
    equal(mine[:8].tolist(), [-1, -1] + (np.arange(4) + 100 * last_rank())
          .tolist() + [-1, -1])
    got = np.zeros(4, "i8")
    window.get(got, group_target=next_rank(), offset=2)
    equal(got.tolist(), x.tolist())
    work = window.get(got, next_rank(), 0, async_op=True)
    equal(work.wait(), True)
    equal(got.tolist(), [-1, -1] + x[:2].tolist())
    window.destroy()


def test_counting_signals():
    window = dist.Window(count=1)
    for _ in range(3):
        window.signal(next_rank())
    window.put_signal(np.ones(1, "f4"), next_rank(), index=None)
    for _ in range(4):
        window.wait_signal(source=last_rank())
    refused(window.wait_signal, source=last_rank(), timeout=0.05,
            reason="kTimedOut", kind=TimeoutError)
    window.signal(next_rank(), 5, 2)
    window.wait_signal(5, 2, "eq")
    for compare in ("ge", "le", "eq"):
        window.wait_signal(5, 2, compare)
    for compare, value in (("ne", 3), ("lt", 3), ("gt", 1)):
        window.wait_signal(5, value, compare)
    window.destroy()


def test_atomics():
    window = dist.Window(count=4 if rank() == 0 else 0, dtype="int64")
    if rank() == 0:
        window.memory()[:] = 0
    dist.barrier()
    old, one = np.zeros(1, "i8"), np.ones(1, "i8")
    tickets = []
    for _ in range(5):
        window.fetch_op(old, one, 0, 0)
        tickets.append(int(old[0]))
    equal(tickets, sorted(set(tickets)))
    every = sum(dist.all_gather_object(None, tickets), [])
    equal(sorted(every), list(range(5 * size())))
    window.accumulate(np.array([rank() + 1]), 0, 1)
    window.accumulate(np.array([rank()]), 0, 2, op="max")
    window.compare_swap(old, np.array([0, rank() + 7]), 0, 3)
    winners = sum(dist.all_gather_object(None, [int(old[0] == 0)]), [])
    equal(sum(winners), 1)
    window.flush()
    dist.barrier()
    if rank() == 0:
        mine = window.memory()
        equal(mine[:3].tolist(), [5 * size(), size() * (size() + 1) // 2,
                                  size() - 1])
        equal(int(mine[3]), winners.index(1) + 7)
    window.destroy()


def test_one_number():
    for dtype, one in (("int32", 1), ("uint64", 1), ("int64", 1),
                       ("float32", 0.5), ("float64", 0.5)):
        window = dist.new_window(count=2 if rank() == 0 else 0, dtype=dtype)
        equal((window.rank(), window.size(), window.group),
              (rank(), size(), dist.group.WORLD))
        if rank() == 0:
            window.memory()[:] = 0
        dist.barrier()
        try:
            before = [window.fetch_add(one, 0, 1) for _ in range(3)]
        except NotImplementedError as error:  # sums of floats, by capability
            check("float" in dtype and error.next_step, error)
            before = None
        every = dist.all_gather_object(None, before)
        if before is not None:
            equal(sorted(sum(every, [])),
                  [one * i for i in range(3 * size())], dtype)
            check(type(before[0]) is type(one), dtype)
            refused(window.fetch_add, one, 0, 2, kind=ValueError,
                    reason="kInvalidArgument", says="beyond")
            refused(window.fetch_add, "1", 0, 0, kind=(TypeError, RuntimeError))
        window.destroy()
    window = dist.Window(count=1, dtype="int16")
    refused(window.fetch_add, 1, rank(), kind=ValueError, says="32 or 64 bits")
    window.destroy()


def test_memory_that_a_rank_brings():
    mine = np.full(N, rank(), "f8")
    window = dist.Window(mine)
    check(window.memory() is mine)
    dist.barrier()
    got = np.zeros(N)
    window.get(got, next_rank())
    check((got == next_rank()).all())
    window.destroy()
    mine[:] = 0
    refused(dist.Window, [1, 2], kind=TypeError)
    with_hole = np.zeros((4, 4))[:, 0]
    refused(dist.Window, with_hole, reason="kInvalidArgument")
    # A rank that has failed alone left no trace.
    dist.barrier()


def test_views_outlive_window_group_and_session_objects():
    group = dist.new_group()
    window = dist.Window(count=N, group=group)
    mine = window.memory()
    mine[:] = rank() + 1
    view = mine[2:8]
    window.destroy()
    dist.destroy_process_group(group)
    del window, group, mine
    gc.collect()
    equal(view.tolist(), [rank() + 1] * 6)
    view += 1
    equal(view.tolist(), [rank() + 2] * 6)


def test_map_remote():
    window = dist.Window(count=N, dtype="int32")
    window.memory()[:] = rank()
    dist.barrier()
    equal(window.map_remote(rank())[0], rank())
    try:
        other = window.map_remote(group_target=next_rank())
    except NotImplementedError as error:
        equal(error.reason, "kUnsupported")
    else:
        check(window.get_attr(next_rank()).is_unified or size() == 1)
        check((other == next_rank()).all())
    dist.barrier()
    window.destroy()


def test_bad_input():
    window = dist.Window(count=N, dtype="float32", signals=2)
    x = np.zeros(4, "f4")
    refused(window.put, x, next_rank(), N - 3, reason="kInvalidArgument")
    refused(window.put, np.zeros(4), next_rank(), reason="kInvalidArgument")
    refused(window.put, x, size(), reason="kRankNotMember")
    refused(window.put, x, 0, group_target=0, kind=ValueError)
    refused(window.signal, next_rank(), 2, reason="kInvalidArgument")
    refused(window.signal, next_rank(), 0, 1, "maybe", kind=ValueError,
            says="set or add")
    refused(window.wait_signal, 0, 1, "about", kind=ValueError, says="eq, ne")
    refused(window.put, [1.0], next_rank(), kind=TypeError)
    refused(window.put_signal, x, next_rank(), 0, "1", kind=TypeError,
            says="index is of type str")
    refused(window.signal, next_rank(), 0.5, kind=TypeError,
            says="index is of type float")
    refused(window.wait_signal, 1 << 70, kind=ValueError, says="64 bits")
    refused(dist.empty, (2, "3"), kind=TypeError, says="extent of the shape")
    refused(dist.get_mem_allocator, device=("cuda", 0), kind=TypeError,
            says="device is of type str")
    refused(dist.get_mem_allocator, device=(2, 1 << 40), kind=ValueError,
            says="the device has the number")
    refused(dist.Window, count=1, dtype="float31", kind=ValueError,
            says="float31")
    with dist.batch():
        refused(window.put, x, next_rank(), kind=ValueError, says="batch")
    window.put(x, next_rank(), N - 4)
    window.destroy()
    refused(window.put, x, next_rank(), reason="kStaleEpoch")


def test_empty_gives_memory_of_the_backend():
    try:
        x = dist.empty((4, 8), "float64")
    except NotImplementedError as error:
        equal(error.reason, "kUnsupported")
        check(error.next_step)
        return
    equal((x.shape, x.dtype), ((4, 8), np.dtype("f8")))
    x[:] = rank()
    dist.all_reduce(x)
    check((x == size() * (size() - 1) / 2).all())
    row = x[1]
    del x
    gc.collect()
    dist.all_reduce(row)
    check((row == size() * size() * (size() - 1) / 2).all())
    equal(dist.empty(3, np.int32).shape, (3,))
    equal(dist.empty(0).size, 0)
    refused(dist.empty, (2, -1), kind=ValueError)


def test_arrays_of_bfloat16():
    """Arrays of bfloat16 sum as floats, not as the integers of their bits."""
    x = dist.empty(3, "bfloat16")
    x[:] = 1.5
    dist.all_reduce(x)
    equal(x.astype("f4").tolist(), [1.5 * size()] * 3)
    window = dist.Window(count=2, dtype="bfloat16")
    equal(window.memory().dtype, x.dtype)
    window.destroy()


def test_the_allocator_of_the_backend():
    try:
        allocator = dist.get_mem_allocator()
    except NotImplementedError as error:
        equal(error.reason, "kUnsupported")
        check(error.next_step)
        equal(dist.empty(2).tolist(), [0, 0])  # plain memory
        return
    check(isinstance(allocator, dist.MemAllocator))
    x = allocator.allocate((2, 3), "int64")
    equal(x.tolist(), [[0] * 3] * 2)
    x[:] = rank()
    dist.all_reduce(x)
    check((x == sum(range(size()))).all())
    refused(allocator.allocate, -1, kind=ValueError)


def test_memory_of_the_program_that_the_backend_knows():
    """No backend on the CPU has a use for it; a refused call holds nothing."""
    pool = np.zeros(1 << 14)
    before = sys.getrefcount(pool)
    try:
        memory = dist.register_mem_pool(pool)
        check(isinstance(memory, dist.Memory))
        dist.all_reduce(pool)
        memory.release()
        memory.release()
    except NotImplementedError as error:
        equal(error.reason, "kUnsupported")
        check(error.next_step)
    gc.collect()
    equal(sys.getrefcount(pool), before)
    refused(dist.register_mem_pool, [1], kind=TypeError)
    refused(dist.register_mem_pool, np.ones((3, 3))[:, 0], kind=ValueError)
    refused(dist.register_mem_pool, np.frombuffer(bytes(8)), kind=ValueError)


if __name__ == "__main__":
    main(globals())
