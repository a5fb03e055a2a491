"""Every operation beside PyTorch's own gloo in the same processes: the results
are equal to the bit where the order of terms does not matter, and right by a
reference where gloo refuses."""

import itertools
import os

import torch
import torch.distributed as dist

from support import check, equal, main, refused

EVERY = int(os.environ.get("TEST_EVERY", "1"))
SIZES = (0, 1, 2, 7, 1000, 70000)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
Op = dist.ReduceOp

_gloo = {}


def gloo(group=None):
    """A gloo group of the same ranks as the world."""
    if group not in _gloo:
        _gloo[group] = dist.new_group(backend="gloo")
    return _gloo[group]


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def made(dtype, shape, seed=0):
    """Elements whose sums over four ranks are exact in every type."""
    generator = torch.Generator().manual_seed(100 * seed + rank())
    whole = torch.randint(0, 4, shape if isinstance(shape, tuple) else (shape,),
                          generator=generator)
    return whole.to(dtype)


def some(*lists):
    """Each EVERY-th combination."""
    return list(itertools.product(*lists))[::EVERY]


def both(call, is_async):
    """call(group, async_op) on our group and on gloo's."""
    works = [call(group, is_async) for group in (None, gloo())]
    for work in works:
        if is_async:
            check(work.wait() is True)


def test_all_reduce():
    ops = (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX)
    for dtype, op, n, is_async in some(FLOATS + INTEGERS, ops, SIZES,
                                       (False, True)):
        x, y = made(dtype, n), made(dtype, n)
        given = iter((x, y))
        both(lambda g, a: dist.all_reduce(next(given), op, g, a), is_async)
        equal(x, y, dtype, op, n)


def test_all_reduce_of_bits():
    for dtype, op, n in some(INTEGERS, (Op.BAND, Op.BOR, Op.BXOR), SIZES):
        x, y = made(dtype, n), made(dtype, n)
        given = iter((x, y))
        both(lambda g, a: dist.all_reduce(next(given), op, g, a), False)
        equal(x, y, dtype, op, n)


def test_sums_of_two_terms_are_equal_to_the_bit():
    if size() != 2:
        return
    for dtype, n in some(FLOATS, SIZES):
        generator = torch.Generator().manual_seed(rank())
        x = torch.randn(n, generator=generator).to(dtype)
        y = x.clone()
        dist.all_reduce(x)
        dist.all_reduce(y, group=gloo())
        equal(x, y, dtype, n)


def test_avg_and_premul_sum():
    for dtype, n in some(FLOATS, SIZES):
        x, total = made(dtype, n), made(dtype, n)
        dist.all_reduce(x, Op.AVG)
        dist.all_reduce(total, group=gloo())
        check(torch.allclose(x.double(), (total.double() / size()),
                             rtol=1e-2, atol=1e-2), dtype, x, total)
    for factor in (0.5, torch.tensor([0.5])):
        x, total = made(torch.float32, 1000), made(torch.float32, 1000)
        dist.all_reduce(x, dist._make_nccl_premul_sum(factor))
        dist.all_reduce(total, group=gloo())
        equal(x, total * 0.5)


def test_complex():
    for dtype in (torch.complex64, torch.complex128):
        x = torch.complex(made(torch.float64, 100), made(torch.float64, 100, 1))
        x = x.to(dtype)
        y, given = x.clone(), x.clone()
        dist.all_reduce(x)
        dist.all_reduce(y, group=gloo())
        equal(x, y)
        ours = [torch.zeros_like(given) for _ in range(size())]
        theirs = [torch.zeros_like(given) for _ in range(size())]
        dist.all_gather(ours, given)
        dist.all_gather(theirs, given, group=gloo())
        for a, b in zip(ours, theirs):
            equal(a, b)


def test_floats_of_eight_bits_move():
    for name in ("float8_e4m3fn", "float8_e5m2"):
        x = made(torch.float32, 64).to(getattr(torch, name))
        outs = torch.zeros(64 * size(), dtype=x.dtype)
        dist.all_gather_into_tensor(outs, x)
        equal(outs[64 * rank():64 * (rank() + 1)].float(), x.float())
        y = x.clone()
        dist.broadcast(y, 0)
        equal(y.float(), outs[:64].float())
        refused(dist.all_reduce, x, says=name.replace("float8_", "f8"))


def test_layouts():
    for group in (None, gloo()):
        x = made(torch.float32, (4, 3, 8, 8)).to(
            memory_format=torch.channels_last)
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(x)
        dist.all_reduce(total)
        check(x.is_contiguous(memory_format=torch.channels_last))
        equal(x, total)
        x = made(torch.float32, (5, 6)).t()
        total = x.contiguous()
        dist.all_reduce(x)
        dist.all_reduce(total)
        equal(x, total)
    # Neither dense nor in order: through a copy, also when begun.
    whole = made(torch.float32, (6, 6))
    rest, total = whole.clone(), whole[:, ::2].contiguous()
    dist.all_reduce(whole[:, ::2], async_op=True).wait()
    dist.all_reduce(total)
    equal(whole[:, ::2], total)
    equal(whole[:, 1::2], rest[:, 1::2])
    out = torch.zeros(2 * size(), 4).t()
    dist.all_gather_into_tensor(out.view_as(out), made(torch.float32, (4, 2)))


def test_broadcast_and_reduce():
    roots = range(size())
    for dtype, n, root, is_async in some(FLOATS + INTEGERS, SIZES, roots,
                                         (False, True)):
        x, y = made(dtype, n), made(dtype, n)
        given = iter((x, y))
        both(lambda g, a: dist.broadcast(next(given), root, g, a), is_async)
        equal(x, y, dtype, n, root)
        x, y = made(dtype, n), made(dtype, n)
        given = iter((x, y))
        both(lambda g, a: dist.reduce(next(given), root, Op.SUM, g, a),
             is_async)
        if rank() == root:
            equal(x, y, dtype, n, root)


def test_all_gather():
    for dtype, n, is_async in some(FLOATS + INTEGERS + (torch.bool,), SIZES,
                                   (False, True)):
        x = made(dtype, n)
        lists = [[torch.zeros(n, dtype=dtype) for _ in range(size())]
                 for _ in range(2)]
        given = iter(lists)
        both(lambda g, a: dist.all_gather(next(given), x, g, a), is_async)
        for a, b in zip(*lists):
            equal(a, b, dtype, n)
        outs = [torch.zeros(n * size(), dtype=dtype) for _ in range(2)]
        given = iter(outs)
        both(lambda g, a: dist.all_gather_into_tensor(next(given), x, g, a),
             is_async)
        equal(*outs, dtype, n)


def test_gather_and_scatter():
    for dtype, n, root, is_async in some(FLOATS + INTEGERS, SIZES,
                                         range(size()), (False, True)):
        x, lists = made(dtype, n), [None, None]
        if rank() == root:
            lists = [[torch.zeros(n, dtype=dtype) for _ in range(size())]
                     for _ in range(2)]
        given = iter(lists)
        both(lambda g, a: dist.gather(x, next(given), root, g, a), is_async)
        if rank() == root:
            for a, b in zip(*lists):
                equal(a, b, dtype, n, root)
        parts = ([made(dtype, n, i) for i in range(size())]
                 if rank() == root else None)
        outs = [torch.zeros(n, dtype=dtype) for _ in range(2)]
        given = iter(outs)
        both(lambda g, a: dist.scatter(next(given), parts, root, g, a),
             is_async)
        equal(*outs, dtype, n, root)


def test_reduce_scatter():
    for dtype, n, is_async in some(FLOATS + INTEGERS, SIZES, (False, True)):
        parts = [made(dtype, n, i) for i in range(size())]
        whole = torch.cat(parts)
        total = whole.clone()
        dist.all_reduce(total, group=gloo())
        expected = total[n * rank():n * (rank() + 1)].clone()
        out = torch.zeros(n, dtype=dtype)
        work = dist.reduce_scatter(out, parts, async_op=is_async)
        if is_async:
            work.wait()
        equal(out, expected, dtype, n)
        out = torch.zeros(n, dtype=dtype)
        work = dist.reduce_scatter_tensor(out, whole, async_op=is_async)
        if is_async:
            work.wait()
        equal(out, expected, dtype, n)


def test_all_to_all():
    for dtype, n, is_async in some(FLOATS + INTEGERS, SIZES, (False, True)):
        x = made(dtype, n * size())
        outs = [torch.zeros(n * size(), dtype=dtype) for _ in range(2)]
        given = iter(outs)
        both(lambda g, a: dist.all_to_all_single(
            next(given), x, group=g, async_op=a), is_async)
        equal(*outs, dtype, n)
        ins = [part.clone() for part in x.chunk(size())] if n else [
            x.clone() for _ in range(size())]
        lists = [[torch.zeros(n, dtype=dtype) for _ in range(size())]
                 for _ in range(2)]
        dist.all_to_all(lists[0], ins)
        expected = outs[0].reshape(size(), n)
        for i, out in enumerate(lists[0]):
            equal(out, expected[i].clone(), dtype, n)


def test_all_to_all_with_uneven_splits():
    for dtype, rows, is_async in some(FLOATS, (1, 3, 200), (False, True)):
        # Rank a sends (a + b) * rows rows to rank b, none to itself at rank 0.
        sends = [(rank() + b) * rows for b in range(size())]
        x = made(dtype, (sum(sends), 5))
        outs = [torch.zeros(sum(sends), 5, dtype=dtype) for _ in range(2)]
        given = iter(outs)
        both(lambda g, a: dist.all_to_all_single(
            next(given), x, list(sends), list(sends), g, a), is_async)
        equal(*outs, dtype, rows)


def test_gather_of_unequal_tensors():
    mine = made(torch.float32, 10 * (rank() + 1))
    outs = [torch.zeros(10 * (i + 1)) for i in range(size())]
    dist.all_gather(outs, mine)
    equal(outs[rank()], mine)


def test_messages():
    if size() == 1:
        return
    to, source = (rank() + 1) % size(), (rank() - 1) % size()
    for dtype, n in some(FLOATS + INTEGERS, SIZES):
        x, y, z = made(dtype, n), torch.zeros(n, dtype=dtype), None
        work = dist.isend(x, to, tag=7)
        dist.recv(y, source, tag=7)
        work.wait()
        z = torch.zeros(n, dtype=dtype)
        ops = [dist.P2POp(dist.isend, x, to), dist.P2POp(dist.irecv, z, source)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        equal(y, z)
        w = torch.zeros(n, dtype=dtype)
        sent = dist.isend(x, to, gloo())
        dist.recv(w, source, gloo())
        sent.wait()
        equal(y, w)
        del work, sent
    late = torch.zeros(2)
    pending = dist.irecv(late, source, tag=1)
    dist.isend(torch.ones(2), to, tag=2).wait()
    dist.recv(torch.zeros(2), source, tag=2)
    dist.isend(torch.full((2,), float(rank())), to, tag=1)
    pending.wait()
    equal(late[0].item(), float(source))


def test_coalesced():
    tensors = [made(torch.float32, n, n) for n in (1, 10, 1000, 0)]
    expected = [tensor.clone() for tensor in tensors]
    for tensor in expected:
        dist.all_reduce(tensor, group=gloo())
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for got, wanted in zip(tensors, expected):
        equal(got, wanted)
    with dist._coalescing_manager(async_ops=True) as block:
        for tensor in tensors:
            dist.all_reduce(tensor, Op.MAX)
    block.wait()
    outs = [torch.zeros(4 * size()) for _ in range(3)]
    given = [made(torch.float32, 4, i) for i in range(3)]
    with dist._coalescing_manager():
        for out, one in zip(outs, given):
            dist.all_gather_into_tensor(out, one)
    for out, one in zip(outs, given):
        equal(out[4 * rank():4 * (rank() + 1)], one)
    parts = [torch.zeros(4) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as block:
        for part, out in zip(parts, outs):
            dist.reduce_scatter_tensor(part, out)
    block.wait()
    for part, one in zip(parts, given):
        equal(part, one * size())


def test_subgroups():
    """Every operation in groups of some of the ranks, beside gloo's."""
    for ranks in ([0, size() - 1], list(range(1, size())), [size() - 1]):
        ranks = sorted(set(ranks))
        if not ranks:
            continue
        ours, theirs = dist.new_group(ranks), dist.new_group(ranks,
                                                             backend="gloo")
        if rank() not in ranks:
            continue
        n = len(ranks)
        for dtype, count in some(FLOATS + INTEGERS, SIZES)[::5]:
            def twice(call, *shape):
                outs = [torch.zeros(*shape, dtype=dtype) for _ in range(2)]
                call(outs[0], ours)
                call(outs[1], theirs)
                equal(*outs, dtype, count, ranks)

            mine = made(dtype, count)
            rows = made(dtype, count * n)
            parts = [made(dtype, count, i) for i in range(n)]
            for root in ranks:
                twice(lambda out, group: dist.broadcast(
                    out.copy_(mine), root, group), count)
                twice(lambda out, group: dist.scatter(
                    out, parts if rank() == root else None, root, group), count)
                if rank() == root:
                    twice(lambda out, group: dist.gather(
                        mine, list(out.unbind()), root, group), n, count)
                else:
                    dist.gather(mine, None, root, ours)
                    dist.gather(mine, None, root, theirs)
            twice(lambda out, group: dist.all_reduce(
                out.copy_(mine), Op.MAX, group), count)
            twice(lambda out, group: dist.all_gather_into_tensor(
                out, mine, group), count * n)
            twice(lambda out, group: dist.all_to_all_single(
                out, rows, group=group), count * n)
            out = torch.zeros(count, dtype=dtype)
            dist.reduce_scatter(out, parts, group=ours)
            total = torch.cat(parts)
            dist.all_reduce(total, group=theirs)
            place = ranks.index(rank())
            equal(out, total[count * place:count * (place + 1)].clone())
            if n > 1:
                to = ranks[(place + 1) % n]
                source = ranks[place - 1]
                got = torch.zeros(count, dtype=dtype)
                sent = dist.isend(mine, to, ours)
                dist.recv(got, source, ours)
                sent.wait()
                all_of_them = torch.zeros(count * n, dtype=dtype)
                dist.all_gather_into_tensor(all_of_them, mine, ours)
                before = ranks.index(source)
                equal(got, all_of_them[count * before:
                                       count * (before + 1)].clone())
        dist.destroy_process_group(ours)
        dist.destroy_process_group(theirs)


def test_functional_collectives():
    import torch.distributed._functional_collectives as funcol
    x = made(torch.float32, 100)
    expected = x.clone()
    dist.all_reduce(expected, group=gloo())
    equal(funcol.all_reduce(x, "sum", dist.group.WORLD) + 0, expected)
    gathered = funcol.all_gather_tensor(x, 0, dist.group.WORLD) + 0
    equal(gathered[100 * rank():100 * (rank() + 1)], x)
    part = funcol.reduce_scatter_tensor(gathered, "sum", 0, dist.group.WORLD)
    equal(part + 0, x * size())
    both = funcol.all_reduce_coalesced([x, x * 2], "sum", dist.group.WORLD)
    equal(both[1] + 0, expected * 2)


def test_objects():
    outs = [None] * size()
    dist.all_gather_object(outs, {"rank": rank(), "text": "x" * rank()})
    equal([one["rank"] for one in outs], list(range(size())))
    box = [rank() * 7]
    dist.broadcast_object_list(box, 0)
    equal(box, [0])
    into = [None] * size() if rank() == 0 else None
    dist.gather_object(rank(), into, 0)
    if rank() == 0:
        equal(into, list(range(size())))
    one = [None]
    dist.scatter_object_list(one, list(range(size())) if rank() == 0 else None)
    equal(one, [rank()])


def test_barriers():
    dist.barrier()
    dist.barrier(async_op=True).wait()
    try:
        dist.monitored_barrier()
    except ValueError as error:  # 2.13 asks for the name gloo
        check("GLOO" in str(error), error)
        dist.group.WORLD.monitored_barrier()


def test_futures_carry_tensors():
    x = made(torch.float32, 10)
    future = dist.all_reduce(x, async_op=True).get_future()
    equal(future.then(lambda f: f.value()[0]).wait(), x)
    outs = [torch.zeros(10) for _ in range(size())]
    future = dist.all_gather(outs, x, async_op=True).get_future()
    equal(future.wait()[rank()], x)


def test_sequence_numbers():
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    dist.barrier()
    dist.all_reduce(torch.ones(1))
    equal(backend._get_sequence_number_for_group(), before + 2)


if __name__ == "__main__":
    main(globals(), [1, 2, 3, 4])
