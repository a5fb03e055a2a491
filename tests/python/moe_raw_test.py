"""The raw forms of mixtures of experts: index maps, chunks, pieces and prepared
exchanges, by definition."""

import numpy as np

import distwrap as dist
from distwrap import moe
from support import check, equal, main, rank, refused, size

TOKENS, SLOTS, WIDTH, EXPERTS = 6, 3, 4, 2


def ids_of_all(seed=0):
    """The experts of all tokens (R,T,K); some are no expert."""
    random = np.random.default_rng(seed)
    return random.integers(-1, EXPERTS * size() + 2, (size(), TOKENS, SLOTS),
                           dtype="i8")


def x_of(source, kind="i4"):
    return (1000 * source + np.arange(TOKENS * WIDTH).reshape(TOKENS, WIDTH)
            ).astype(kind)


def wants(ids, expert, source):
    return [t for t in range(TOKENS) if expert in ids[source, t]]


def request_of(dtype="int32"):
    return moe.alltoallv_dedup_init(TOKENS, WIDTH, SLOTS, EXPERTS, dtype, 1)


def test_maps_by_definition():
    ids = ids_of_all()
    send, forward, recv = moe.dedup_maps(ids, EXPERTS, 1, rank())
    equal((send.shape, forward.shape, recv.shape),
          ((size(), TOKENS), (1, size(), TOKENS), (EXPERTS, size(), TOKENS)))
    for bucket in range(EXPERTS):
        for source in range(size()):
            row = np.full(TOKENS, -1)
            taken = wants(ids, EXPERTS * rank() + bucket, source)
            row[taken] = np.arange(len(taken))
            check((recv[bucket, source] == row).all(), bucket, source)
    # A rank is a node of its own, so what it sends is what the other forwards.
    for other in range(size()):
        theirs = moe.dedup_maps(ids.astype("i4"), EXPERTS, 1, other)
        check((theirs[1][0, rank()] == send[other]).all(), other)


def test_dedup_there_and_back():
    for dtype in ("int32", "float32", "float64"):
        request = request_of(dtype)
        for seed in range(3):
            ids = ids_of_all(seed)
            maps = moe.dedup_maps(ids, EXPERTS, 1, rank())
            rows = [(s, t) for b in range(EXPERTS) for s in range(size())
                    for t in wants(ids, EXPERTS * rank() + b, s)]
            x = x_of(rank(), dtype)
            out = np.full((len(rows) + 1, WIDTH), -7, dtype)
            numbers = np.full(len(rows) + 1, -7, "i4")
            for async_op in (False, True):
                work = moe.alltoallv_dedup_exec(out, numbers, x, *maps, request,
                                                async_op=async_op)
                equal(work is not None, async_op)
                if work is not None:
                    work.wait()
                for i, (source, token) in enumerate(rows):
                    check((out[i] == x_of(source, dtype)[token]).all(), i)
                    equal(numbers[i], token)
                check((out[-1] == -7).all() and numbers[-1] == -7)
            back = np.full_like(x, -7)
            moe.alltoallv_dedup_combine(back, out, *maps, request)
            copies = [len({e for e in token if 0 <= e < EXPERTS * size()})
                      for token in ids[rank()]]
            check((back == x * np.array(copies)[:, None].astype(dtype)).all())


def test_dedup_weights_and_bias():
    request = request_of("float32")
    ids = ids_of_all(1)
    maps = moe.dedup_maps(ids, EXPERTS, 1, rank())
    count = sum(len(wants(ids, EXPERTS * rank() + b, s))
                for b in range(EXPERTS) for s in range(size()))
    x = x_of(rank(), "f4")
    out, numbers = np.empty((count, WIDTH), "f4"), np.empty(count, "i4")
    moe.alltoallv_dedup_exec(out, numbers, x, *maps, request)
    back = np.empty_like(x)
    moe.alltoallv_dedup_combine(back, out, *maps, request,
                                weighting="at_expert",
                                weights=np.full(count, 2, "f4"), bias=[x],
                                reproducible=True)
    copies = np.array([len({e for e in token if 0 <= e < EXPERTS * size()})
                       for token in ids[rank()]])
    check((back == x * (1 + 2 * copies)[:, None]).all())


def test_rank_without_rows():
    ids = np.zeros((size(), TOKENS, SLOTS), "i8")  # all want expert 0
    maps = moe.dedup_maps(ids, EXPERTS, 1, rank())
    request, x = request_of(), x_of(rank())
    out = numbers = None
    if rank() == 0:
        out = np.empty((size() * TOKENS, WIDTH), "i4")
        numbers = np.empty(size() * TOKENS, "i4")
    moe.alltoallv_dedup_exec(out, numbers, x, *maps, request)
    back = np.empty_like(x)
    moe.alltoallv_dedup_combine(back, out, *maps, request)
    check((back == x).all())


def test_bad_maps_and_arguments():
    ids = ids_of_all()
    maps = moe.dedup_maps(ids, EXPERTS, 1, rank())
    request, x = request_of(), x_of(rank())
    rows = size() * TOKENS * EXPERTS
    out, numbers = np.zeros((rows, WIDTH), "i4"), np.zeros(rows, "i4")
    broken = [one.copy() for one in maps]
    broken[0][0, 0] = 5
    refused(moe.alltoallv_dedup_exec, out, numbers, x, *broken, request,
            reason="kIndexMap", says="send_indices has 5 at row 0, position 0")
    check((out == 0).all(), "the output was written")
    full = moe.dedup_maps(np.zeros_like(ids) + np.arange(SLOTS), EXPERTS, 1,
                          rank())
    short = (out, numbers) if rank() != 0 else (out[:1], numbers[:1])
    refused(moe.alltoallv_dedup_exec, *short, x, *full, request,
            reason="kCapacity")
    refused(moe.alltoallv_dedup_exec, out, numbers, x,
            *[one.astype("i8") for one in maps], request,
            reason="kMetadataType")
    refused(moe.alltoallv_dedup_exec, out, numbers, x[:-1], *maps, request,
            reason="kInvalidArgument")
    refused(moe.alltoallv_dedup_exec, out, numbers, x, *maps, None,
            kind=TypeError)
    refused(moe.alltoallv_dedup_init, 0, WIDTH, SLOTS, EXPERTS, "int32", 1,
            reason="kInvalidArgument")
    refused(moe.alltoallv_dedup_init, TOKENS, WIDTH, SLOTS, EXPERTS, "int5", 1,
            reason="kInvalidArgument")
    if size() > 1:
        refused(moe.alltoallv_dedup_init, TOKENS, WIDTH, SLOTS, EXPERTS,
                "int32", size() + 1, reason="kTopology")
    refused(moe.dedup_maps, ids[0], EXPERTS, 1, rank(),
            reason="kMetadataType")
    refused(moe.dedup_maps, ids.astype("f8"), EXPERTS, 1, rank(),
            reason="kMetadataType")
    refused(moe.dedup_maps, ids, EXPERTS, 1, size(),
            reason="kInvalidArgument")
    moe.alltoallv_dedup_exec(out, numbers, x, *maps, request)


def chunks_of(source):
    """The rows of each chunk of a rank: C = R + 1, some empty."""
    return np.array([(source + c) % 3 for c in range(size() + 1)], "i8")


def listed(source, to):
    """The chunks that a rank sends to another."""
    return [c for c in range(size() + 1) if (source + to + c) % 3 != 1]


def offsets(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(int)


def there_and_back(async_op):
    def run(call, *arguments):
        work = call(*arguments, async_op=async_op)
        check((work is None) != async_op)
        if async_op:
            work.wait()

    sizes = chunks_of(rank())
    total = int(sizes.sum())
    rows = x_of(rank(), "f4").repeat(4, axis=0)[:total]
    ids = np.concatenate([listed(rank(), to) for to in range(size())])
    counts = np.array([len(listed(rank(), to)) for to in range(size())], "i8")
    outs = [np.full((int(chunks_of(p).sum()) + 1, WIDTH), -7, "f4")
            for p in range(size())]
    gathered = np.empty(size() * (size() + 1), "i8")
    run(moe.alltoallv_dynamic_dispatch, outs, gathered, rows, sizes,
        ids.astype("i8"), counts, WIDTH)
    check((gathered == np.concatenate([chunks_of(p) for p in range(size())]))
          .all())
    for p, out in enumerate(outs):
        expected = np.full_like(out, -7)
        theirs = x_of(p, "f4").repeat(4, axis=0)
        begin = offsets(chunks_of(p))
        for c in listed(p, rank()):
            expected[begin[c]:begin[c + 1]] = theirs[begin[c]:begin[c + 1]]
        check((out == expected).all(), p)

    # Each chunk goes back from where it went.
    slab = max(int(chunks_of(p).sum()) for p in range(size()))
    slabs = np.zeros((size(), slab, WIDTH), "f4")
    for p, out in enumerate(outs):
        slabs[p, :len(out) - 1] = out[:-1]
    back_ids = np.concatenate([
        [q * (size() + 1) + c for c in listed(q, rank())]
        for q in range(size())]).astype("i8")
    back_counts = np.array([len(listed(q, rank())) for q in range(size())],
                           "i8")
    back = np.full_like(rows, -7)
    run(moe.alltoallv_dynamic_combine, back, slabs, gathered, back_ids,
        back_counts, WIDTH)
    sent = {c for to in range(size()) for c in listed(rank(), to)}
    begin = offsets(sizes)
    for c in range(size() + 1):
        part = slice(begin[c], begin[c + 1])
        check((back[part] == (rows[part] if c in sent else -7)).all(), c)


def test_dynamic_there_and_back():
    for async_op in (False, True):
        there_and_back(async_op)


def test_dynamic_bad_arguments():
    one = np.zeros(size(), "i8")
    x, gathered = np.zeros((2, WIDTH), "f4"), np.empty(size(), "i8")
    sizes, ids = np.array([2], "i8"), np.zeros(0, "i8")
    outs = [np.zeros((2, WIDTH), "f4") for _ in range(size())]
    call = moe.alltoallv_dynamic_dispatch
    refused(call, outs[1:], gathered, x, sizes, ids, one, WIDTH,
            reason="kInvalidArgument")
    refused(call, outs, gathered, x, sizes, ids, one, 0,
            reason="kInvalidArgument")
    refused(call, outs, gathered, x, sizes.astype("i4"), ids, one, WIDTH,
            reason="kMetadataType")
    refused(call, outs, gathered, x, np.array([-1]), ids, one, WIDTH,
            reason="kIndexMap")
    refused(call, outs, gathered, x, np.array([3]), ids, one, WIDTH,
            reason="kCapacity")
    refused(moe.alltoallv_dynamic_combine, x, x, np.empty(size() + 1, "i8"),
            ids, one, WIDTH, reason="kInvalidArgument") if size() > 1 else None
    call(outs, gathered, x, sizes, ids, one, WIDTH)
    check((gathered == 2).all())
    dist.barrier()


def sent(source, to):
    """The elements of a rank for another one; none for some."""
    count = 0 if (source + to) % 3 == 1 else 1 + to + 2 * source
    return (100 * source + 10 * to + np.arange(count)).astype("f4")


def finish(work, async_op):
    equal(work is not None, async_op)
    if async_op:
        work.wait()


def test_pieces():
    me, all_ranks = rank(), range(size())
    mine = [sent(me, to) for to in all_ranks]
    came = [sent(source, me) for source in all_ranks]
    counts = np.array([len(one) for one in mine], "i8")

    def outputs():
        return ([np.full(len(one) + 2, -7, "f4") for one in came],
                np.full(size(), -7, "i8"))

    def expect(outs, received):
        equal(received.tolist(), [len(one) for one in came])
        for out, one in zip(outs, came):
            check((out[:len(one)] == one).all() and (out[len(one):] == -7)
                  .all(), out, one)

    for async_op in (False, True):
        outs, received = outputs()
        # An input may have more than is sent.
        ins = [np.append(one, np.float32(5)) for one in mine]
        finish(moe.alltoallv_dynamic(outs, received, ins, counts,
                                     async_op=async_op), async_op)
        expect(outs, received)
        outs, received = outputs()
        finish(moe.alltoallv_dynamic_split(outs, received,
                                           np.concatenate(mine), counts,
                                           async_op=async_op), async_op)
        expect(outs, received)
        rows = np.full((sum(map(len, came)), 1), -7, "f4")
        finish(moe.device_alltoallv_single(
            rows, np.concatenate(mine).reshape(-1, 1), received, counts,
            {"num_blocks": 2}, async_op=async_op), async_op)
        check((rows[:, 0] == np.concatenate(came)).all())


def test_pieces_bad_arguments():
    outs = [np.zeros(1, "f4") for _ in range(size())]
    received, ones = np.zeros(size(), "i8"), np.ones(size(), "i8")
    x = np.ones(size(), "f4")
    refused(moe.alltoallv_dynamic, outs, received, outs[1:], ones,
            reason="kInvalidArgument")
    refused(moe.alltoallv_dynamic_split, outs, received, x, 2 * ones,
            reason="kCapacity")
    refused(moe.alltoallv_dynamic_split, outs, received, x, ones.astype("i4"),
            reason="kMetadataType")
    refused(moe.device_alltoallv_single, x.copy(), x, ones, ones,
            {"num_blocks": "many"}, reason="kInvalidArgument")
    refused(moe.device_alltoallv_single, x.copy(), x, ones, ones, ["hints"],
            kind=TypeError)
    moe.alltoallv_dynamic_split(outs, received, x, ones)
    check((received == 1).all())


def test_prepared_exchange():
    me, all_ranks = rank(), range(size())
    op = moe.AllToAllVOp(1 << 12, 1 << 10)
    early = refused(op.alltoallv, np.zeros(0, "f4"), [0] * size(),
                    [0] * size(), reason="kNotInitialized")
    check("set up" in str(early))
    op.setup()
    refused(op.setup, reason="kAlreadyInitialized")
    kept = []
    for turn in range(4):
        mine = [sent(me, to) + turn for to in all_ranks]
        came = [sent(source, me) + turn for source in all_ranks]
        ins, outs = [len(one) for one in mine], [len(one) for one in came]
        x = np.concatenate(mine)
        if turn % 2 == 0:
            rows = op.alltoallv(x.repeat(2).reshape(-1, 2), outs, ins)
            equal(rows.shape, (sum(outs), 2))
            rows = rows[:, 1]
        else:
            op.send_buffer(len(x), "float32")[:] = x
            rows = op.alltoallv_from_buffer(outs, ins)
        check((rows == np.concatenate(came)).all(), turn)
        kept.append((rows, np.concatenate(came)))
    # Two results are valid, and stay after the end of the exchange.
    refused(op.alltoallv, np.zeros(1 << 12, "f4"), [0] * size(),
            [1 << 12] + [0] * (size() - 1), reason="kInvalidArgument")
    refused(op.alltoallv, np.zeros(1, "f4"), [0], [0] * (size() + 1),
            reason="kInvalidArgument")
    refused(op.send_buffer, 1 << 12, "float32", reason="kInvalidArgument")
    op.close()
    op.close()
    refused(op.alltoallv_from_buffer, [0] * size(), [0] * size(),
            reason="kNotInitialized")
    del op
    for rows, expected in kept[-2:]:
        check((rows == expected).all())


if __name__ == "__main__":
    main(globals())
