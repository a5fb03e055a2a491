"""Prepared operations in Python: what a start moves, and what is refused."""

import gc
import sys
import threading
import weakref

import numpy as np

import distwrap as dist
from support import (
    check, equal, main, new_world, rank, refused, size)


def piece(source, target):
    """The elements that a rank has for another one."""
    return (source + 2 * target) % 3 + (source == target)


class Exchange:
    """The arrays of an exchange whose pairs differ."""

    def __init__(self):
        self.to = [piece(rank(), r) for r in range(size())]
        self.of = [piece(r, rank()) for r in range(size())]
        self.sent = np.zeros(sum(self.to), "f4")
        self.got = np.zeros(sum(self.of), "f4")

    def prepare(self, group=None, label=None):
        with dist.batch() as batch:
            dist.all_to_all_single(self.got, self.sent, self.of, self.to,
                                   group=group, label=label)
            return batch.prepare()

    def fill(self, call):
        self.sent[:] = 100 * call + rank()
        self.got[:] = -1

    def came(self, call):
        want = np.repeat(100 * call + np.arange(size()), self.of)
        check((self.got == want).all(), call, self.got, want)


def prepared(record):
    with dist.batch() as batch:
        record()
        return batch.prepare()


def test_starts_on_its_arrays_and_on_others():
    own, other = Exchange(), Exchange()
    with own.prepare() as exchange:
        for call in range(10):
            own.fill(call)
            equal(exchange.start(), None)
            own.came(call)
            other.fill(call)
            exchange.start(other.got, other.sent, timeout=60, label="others")
            other.came(call)
            # Other calls come in between.
            dist.barrier()
            own.fill(-call)
            work = exchange.start(async_op=True)
            work.wait()
            own.came(-call)
            check(work.result()[0] is own.got)
            other.fill(-call)
            work = exchange.start(other.got, other.sent, async_op=True)
            work.wait()
            other.came(-call)
            check(work.result()[0] is other.got)


def test_every_kind():
    x = np.zeros(4, "i8")
    parts = [np.zeros(4, "i8") for _ in range(size())]
    z = np.zeros(2, "c8")
    total = size() * (size() + 1) // 2
    with prepared(lambda: dist.all_reduce(x)) as summed, \
            prepared(lambda: dist.all_gather(parts, x)) as gathered, \
            prepared(lambda: dist.all_reduce(z)) as complex_sum, \
            prepared(lambda: dist.broadcast(x, 0)) as sent, \
            prepared(dist.barrier) as met:
        for call in range(3):
            x[:] = (rank() + 1) * (call + 1)
            summed.start()
            check((x == total * (call + 1)).all(), x)
            y = np.full((2, 2), rank() + 1, "i8")
            summed.start(y, y)
            check((y == total).all(), y)
            x[:] = rank() + call
            gathered.start()
            check(all((part == r + call).all()
                      for r, part in enumerate(parts)), parts)
            equal(gathered.start(async_op=True).wait(), True)
            # Complex numbers are summed by their parts.
            w = np.full(2, 1 + 2j * rank(), "c8")
            complex_sum.start(w, w)
            check((w == size() + 1j * size() * (size() - 1)).all(), w)
            x[:] = rank() + 5
            sent.start()
            check((x == 5).all(), x)
            met.start()
        refused(gathered.start, x, x, reason="kInvalidArgument",
                kind=ValueError)


def test_one_rank_has_an_input():
    got = np.zeros(2)
    full = np.arange(2.0 * size()) if rank() == 0 else None
    with prepared(lambda: dist.scatter_tensor(got, full, 0)) as scattered:
        scattered.start()
        check((got == [2 * rank(), 2 * rank() + 1]).all(), got)
        other = np.zeros(2)
        scattered.start(other, full)
        check((other == got).all(), other)


def test_arrays_are_held():
    own = Exchange()
    exchange = own.prepare()
    gone = weakref.ref(own.sent)
    own.fill(3)
    sent, own.sent = own.sent, None
    # NumPy moves no memory that others use.
    refused(sent.resize, 10_000_000, kind=ValueError)
    del sent
    gc.collect()
    check(gone() is not None, "the array went")
    exchange.start()
    own.came(3)
    work = exchange.start(async_op=True)
    exchange.close()
    work.wait()
    own.came(3)
    del work
    gc.collect()
    if sys.getrefcount(own.got) > 2 or gone() is not None:
        raise AssertionError("the arrays stay")


def test_a_block_that_prepares_starts_nothing():
    x = np.ones(2)
    with dist.batch(async_op=True) as batch:
        dist.all_reduce(x)
        held = batch.prepare()
        # Recording has ended, so this one is made at once.
        dist.all_reduce(y := np.ones(2))
    check((y == size()).all(), y)
    check((x == 1).all(), x)
    equal((batch.work, batch.wait(), len(batch)), (None, True, 1))
    held.start()
    check((x == size()).all(), x)
    held.close()
    held.close()  # is closed already


def test_the_calls_of_ranks_differ():
    if size() == 1:
        return
    own = Exchange()
    if rank() == 1:
        own.of[0] += 1
        own.got = np.zeros(sum(own.of), "f4")
    told = refused(own.prepare, label="rows", reason="kCallMismatch",
                   kind=RuntimeError, says="rows")
    equal(told.ranks, (0, 1))
    x = np.ones(2)

    def another():
        with dist.batch() as batch:
            dist.all_reduce(x, dist.ReduceOp.MAX if rank() == 1 else None)
            try:
                batch.prepare()
            except dist.DistError as error:
                equal(error.reason, "kCallMismatch")
                equal(error.ranks, (1,) if size() > 2 else error.ranks)
            # The end of the block starts nothing.
    another()
    check((x == 1).all(), x)
    dist.barrier()


def test_misuse():
    own = Exchange()
    with dist.batch() as batch:
        dist.barrier()
    refused(batch.prepare, kind=ValueError, says="does not record")

    def prepare(record):
        with dist.batch() as inner:
            record()
            inner.prepare()
    refused(prepare, lambda: None, reason="kInvalidArgument", says="0 items")
    refused(prepare, lambda: (dist.barrier(), dist.barrier()),
            reason="kInvalidArgument", says="2 items")
    refused(prepare, lambda: dist.isend(np.zeros(1), (rank() + 1) % size()),
            reason="kInvalidArgument")

    def twice():
        with dist.batch() as inner:
            dist.barrier()
            with inner.prepare():
                inner.prepare()
    refused(twice, kind=ValueError, says="does not record")

    def within_another():
        with dist.batch() as outer:
            dist.barrier()
            with dist.batch():
                outer.prepare()
    refused(within_another, kind=ValueError, says="does not record")

    def recorded(exchange):
        with dist.batch():
            exchange.start()
    with own.prepare() as exchange:
        refused(recorded, exchange, reason="kInvalidArgument", says="batch")
        refused(exchange.start, own.got, reason="kInvalidArgument")
        refused(exchange.start, own.got.astype("f8"), own.sent,
                reason="kInvalidArgument")
        refused(exchange.start, np.zeros(99, "f4"), own.sent,
                reason="kInvalidArgument", says="the output is not like")
        refused(exchange.start, [1.0], own.sent, kind=TypeError)
        refused(exchange.start, timeout=0, kind=ValueError)
        refused(exchange.start, label=3, kind=TypeError)
        refused(exchange.start, 1, 2, 3, kind=TypeError)
        own.fill(1)
        exchange.start()
        own.came(1)
    refused(exchange.start, kind=ValueError, says="closed")
    refused(dist.PreparedOperation, kind=TypeError)
    dist.barrier()


def test_a_second_start_on_arrays_in_use():
    if size() == 1:
        return
    own, other = Exchange(), Exchange()
    word = np.zeros(1)
    with own.prepare(label="rows") as exchange:
        own.fill(1)
        if rank() == 0:
            # No other rank has started yet, so this start is under way.
            work = exchange.start(async_op=True)
            refused(exchange.start, reason="kInvalidArgument",
                    kind=ValueError, says=("still uses", "rows"))
            refused(exchange.start, async_op=True, reason="kInvalidArgument")
            other.fill(2)
            beside = exchange.start(other.got, other.sent, async_op=True)
            for r in range(1, size()):
                dist.send(word, r)
            work.wait()
            beside.wait()
        else:
            dist.recv(word, 0)
            other.fill(2)
            exchange.start()
            exchange.start(other.got, other.sent)
        own.came(1)
        other.came(2)
        own.fill(3)
        exchange.start()
        own.came(3)


def test_after_its_group():
    own = Exchange()
    with new_world() as group:
        exchange = own.prepare(group)
        exchange.start()
    refused(exchange.start, reason="kGroupClosed")
    exchange.close()
    refused(exchange.start, says="closed")


def test_another_thread_closes_it():
    """While a start waits without the GIL, its arrays stay."""
    if size() == 1:
        return
    word = np.zeros(1)
    own = Exchange()
    exchange = own.prepare()
    own.fill(4)
    if rank() == 0:
        # The timer's thread has no session.
        world, others = dist.group.WORLD, range(1, size())

        def close():
            exchange.close()
            own.sent = None
            gc.collect()
            for r in others:
                dist.send(word, r, world)
        later = threading.Timer(0.2, close)
        later.start()
        exchange.start()
        later.join()
    else:
        dist.recv(word, 0)
        exchange.start()
        exchange.close()
    own.came(4)


if __name__ == "__main__":
    main(globals())
