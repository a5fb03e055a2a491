"""The calls of torch.distributed as a program makes them: collectives, messages,
groups, start and end, and the traps of other libraries."""

import datetime
import os
import threading
import time
import weakref

import numpy as np

import distwrap as dist
from support import (check, equal, main, new_world, rank, refused, size,
                     thread_ranks)

N = 1024
Op = dist.ReduceOp


def mine(dtype="f4"):
    return np.full(N, rank() + 1, dtype)


def everyone():
    return list(range(size()))


def all_equal(array, value):
    check((array == value).all(), "expected only", value, "got", array)


def total():
    return size() * (size() + 1) / 2


def both_ways(function, *arguments, **named):
    """One call that waits and one that is waited for."""
    equal(function(*arguments, **named), None)
    work = function(*arguments, async_op=True, **named)
    check(isinstance(work, dist.Work))
    equal(work.wait(), True)


# ---- collectives ----

def test_all_reduce_and_broadcast():
    x = mine()
    dist.all_reduce(x)
    all_equal(x, total())
    x = mine()
    equal(dist.all_reduce(x, async_op=True).wait(), True)
    all_equal(x, total())
    for name in ("SUM", "sum", "ReduceOp.SUM", Op.SUM, 1):
        x = mine()
        dist.all_reduce(x, op=name)
        all_equal(x, total())
    x = np.full(N, 42 if rank() == 0 else 0, "f4")
    dist.broadcast(x, 0)
    all_equal(x, 42)
    x = np.full(N, 99 if rank() == 0 else 0, "f4")
    work = dist.broadcast(x, src=0, async_op=True)
    work.wait()
    all_equal(x, 99)
    x = mine()
    dist.reduce(x, 0)
    all_equal(x, total() if rank() == 0 else rank() + 1)
    both_ways(dist.barrier)


def test_the_store_of_a_session():
    session = dist.create_session(store=dist.HashStore(), rank=0, world_size=1)
    session.store().set("program/color", b"blue")
    equal(session.store().get("program/color"), b"blue")
    session.close()


def test_gathers_of_lists_tensors_and_unequal_parts():
    outs = [np.zeros(N, "f4") for _ in everyone()]
    both_ways(dist.all_gather, outs, mine())
    for i, out in enumerate(outs):
        all_equal(out, i + 1)
    out = np.zeros(N * size(), "f4")
    both_ways(dist.all_gather_into_tensor, out, mine())
    for i in everyone():
        all_equal(out[i * N:(i + 1) * N], i + 1)
    outs = [np.zeros((i + 1) * 256, "f4") for i in everyone()]
    own = np.full((rank() + 1) * 256, rank() + 1, "f4")
    both_ways(dist.all_gather, outs, own)
    for i, out in enumerate(outs):
        all_equal(out, i + 1)
    for arguments in ({"dst": 0}, {}):
        outs = [np.zeros(N, "f4") for _ in everyone()] if rank() == 0 else None
        both_ways(dist.gather, mine(), outs, **arguments)
        for i, out in enumerate(outs or []):
            all_equal(out, i + 1)


def test_scatters_of_lists_tensors_and_unequal_parts():
    for arguments in ({"src": 0}, {}):
        x = np.zeros(N, "f4")
        given = ([np.full(N, i + 1, "f4") for i in everyone()]
                 if rank() == 0 else None)
        both_ways(dist.scatter, x, given, **arguments)
        all_equal(x, rank() + 1)
    x = np.zeros(N, "f4")
    both_ways(dist.reduce_scatter, x, [mine() for _ in everyone()])
    all_equal(x, total())
    both_ways(dist.reduce_scatter_tensor, x, np.tile(mine(), size()))
    all_equal(x, total())
    x = np.zeros((rank() + 1) * 256, "f4")
    both_ways(dist.reduce_scatter, x,
              [np.full((i + 1) * 256, rank() + 1, "f4") for i in everyone()])
    all_equal(x, total())


def test_all_to_all():
    outs = [np.zeros(N, "f4") for _ in everyone()]
    both_ways(dist.all_to_all, outs,
              [np.full(N, 10 * rank() + i, "f4") for i in everyone()])
    for i, out in enumerate(outs):
        all_equal(out, 10 * i + rank())
    out = np.zeros((size(), N), "f4")
    both_ways(dist.all_to_all_single, out,
              np.stack([np.full(N, 10 * rank() + i, "f4") for i in everyone()]))
    for i in everyone():
        all_equal(out[i], 10 * i + rank())
    # (i + 1) * 128 elements to rank i, (me + 1) * 128 from each.
    sends = [(i + 1) * 128 for i in everyone()]
    receives = [(rank() + 1) * 128 for _ in everyone()]
    out = np.zeros(sum(receives), "f4")
    both_ways(dist.all_to_all_single, out, np.full(sum(sends), rank(), "f4"),
              receives, sends)
    equal(out.tolist(), [float(i) for i in everyone() for _ in
                         range(receives[0])])


def test_premultiplied_sums():
    x = mine()
    dist.all_reduce(x, Op.premul_sum(0.5))
    all_equal(x, 0.5 * total())
    x = mine()
    dist.all_reduce(x, Op.premul_sum(np.array([0.25], "f4")))
    all_equal(x, 0.25 * total())
    x = mine()
    dist.all_reduce(x, Op.premul_sum(2.0), async_op=True).wait()
    all_equal(x, 2 * total())
    x = np.zeros(N, "f4")
    dist.reduce_scatter_tensor(x, np.tile(mine(), size()), Op.premul_sum(0.5))
    all_equal(x, 0.5 * total())
    equal(Op.premul_sum(2), dist.PremulSum(2.0))
    check(Op.premul_sum(2) != Op.premul_sum(3))
    equal(Op.premul_sum(2).factor, 2.0)
    equal(repr(Op.premul_sum(0.5)), "ReduceOp.premul_sum(0.5)")
    # Two factors at once, and another one on each rank.
    x, y = mine(), mine()
    works = [dist.all_reduce(x, Op.premul_sum(3.0), async_op=True),
             dist.all_reduce(y, Op.premul_sum(rank() + 1.0), async_op=True)]
    dist.wait_all(works)
    all_equal(x, 3 * total())
    all_equal(y, sum((r + 1) ** 2 for r in everyone()))


# ---- messages ----

def partner():
    """The neighbour in pairs of an even and an odd rank; None for the last rank
    of an odd number."""
    other = rank() ^ 1
    return other if other < size() else None


def test_pairs():
    other = partner()
    if other is not None:
        x, y = mine(), np.zeros(N, "f4")
        if rank() % 2 == 0:
            dist.send(x, other)
            equal(dist.recv(y, other), other)
        else:
            equal(dist.recv(y, src=other), other)
            dist.send(x, dst=other)
        all_equal(y, other + 1)
        y[:] = 0
        works = ([dist.isend(x, other)] if rank() % 2 == 0
                 else [dist.irecv(y, other)])
        dist.wait_all(works)
        all_equal(y, 0 if rank() % 2 == 0 else other + 1)
        y[:] = 0
        works = [dist.isend(x, other), dist.irecv(y, group_src=other)]
        for work in works:
            equal(work.wait(), True)
        all_equal(y, other + 1)
    dist.barrier()


def test_batches_of_messages():
    other = partner()
    if other is not None:
        for pairs in (1, 2):
            sent = [np.full(N, 10 * rank() + i, "f4") for i in range(pairs)]
            got = [np.zeros(N, "f4") for _ in range(pairs)]
            # Sends first on both sides.
            works = dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, x, other) for x in sent]
                + [dist.P2POp(dist.irecv, x, other) for x in got])
            equal(len(works), 2 * pairs)
            for work in works:
                work.wait()
            for i, x in enumerate(got):
                all_equal(x, 10 * other + i)
        op = dist.P2POp("irecv", got[0], other, None, 3)
        equal((op.op, op.peer, op.tag), ("irecv", other, 3))
    equal(dist.batch_isend_irecv([]), [])
    with dist.batch() as batch:
        check(isinstance(batch, dist.Batch))
    # Messages of two ranks alone do not move the collectives of the others.
    if size() > 1 and rank() < 2:
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, mine(), 1 - rank()),
            dist.P2POp(dist.irecv, np.zeros(N, "f4"), 1 - rank())])
        dist.wait_all(works)
    dist.barrier()


def test_messages_of_two_groups_and_tags():
    other = partner()
    with new_world() as second:
        if other is not None:
            a, b = np.zeros(4, "i4"), np.zeros(4, "i4")
            with dist.batch():
                dist.isend(np.full(4, 1, "i4"), other)
                dist.isend(np.full(4, 2, "i4"), other, group=second)
                dist.irecv(b, other, group=second)
                dist.irecv(a, other)
            equal((a[0], b[0]), (1, 2))
            # A message of tag 0 beside a batch, and tags in another order.
            c, d, e = (np.zeros(4, "i4") for _ in range(3))
            works = [dist.isend(np.full(4, 7, "i4"), other)]
            works += dist.batch_isend_irecv([
                dist.P2POp(dist.isend, np.full(4, tag, "i4"), other, tag=tag)
                for tag in (5, 6)])
            dist.irecv(e, other, tag=6).wait()
            dist.irecv(d, other, tag=5).wait()
            dist.recv(c, other)
            equal((c[0], d[0], e[0]), (7, 5, 6))
            dist.wait_all(works)


# ---- groups ----

def test_new_groups():
    hour = datetime.timedelta(hours=1)
    for options in ({}, {"ranks": everyone()}, {"timeout": hour},
                    {"timeout": 3600}, {"group_desc": "mine"},
                    {"use_local_synchronization": True}, {"device_id": 0},
                    {"backend": dist.get_backend()}, {"pg_options": object()},
                    {"hints": {}}):
        group = dist.new_group(**options)
        check(isinstance(group, dist.ProcessGroup) and group, options)
        equal((group.rank(), group.size()), (rank(), size()))
        equal(dist.get_process_group_ranks(group), everyone())
        if "timeout" in options:
            equal(group.timeout, 3600.0)
        if "group_desc" in options:
            equal(group.group_desc, "mine")
        x = mine()
        dist.all_reduce(x, group=group)
        all_equal(x, total())
        dist.destroy_process_group(group)


def test_a_group_of_some():
    """Global and group numbers of ranks; who is outside makes no calls."""
    members = [r for r in everyone() if r % 2 == 1]
    if not members:
        return
    for _ in range(2):  # again: a rank outside has not kept anything
        group = dist.new_group(members)
        if rank() not in members:
            equal(group, dist.GroupMember.NON_GROUP_MEMBER)
            check(not group)
            equal((group.rank(), group.size(), dist.get_rank(group),
                   dist.get_world_size(group)), (-1, -1, -1, -1))
            refused(dist.barrier, group, kind=ValueError,
                    reason="kRankNotMember")
            continue
        equal(dist.get_process_group_ranks(group), members)
        last = len(members) - 1
        equal(dist.get_global_rank(group, last), members[-1])
        equal(dist.get_group_rank(group, members[-1]), last)
        for root in ({"src": members[-1]}, {"group_src": last}):
            x = mine()
            dist.broadcast(x, group=group, **root)
            all_equal(x, members[-1] + 1)
        for root in ({"dst": members[0]}, {"group_dst": 0}):
            x = mine()
            dist.reduce(x, group=group, **root)
            all_equal(x, sum(r + 1 for r in members)
                      if rank() == members[0] else rank() + 1)
        if len(members) > 1:
            to = members[1 - members.index(rank())]
            x = np.zeros(N, "f4")
            work = dist.isend(mine(), to, group)
            equal(dist.recv(x, to, group), to)  # the rank of the world
            all_equal(x, to + 1)
            work.wait()
        error = refused(dist.get_group_rank, group, 0, kind=ValueError,
                        reason="kRankNotMember")
        check("not in" in str(error), error)
        dist.destroy_process_group(group)


def test_the_order_of_ranks():
    backwards = everyone()[::-1]
    group = dist.new_group(backwards)
    equal(group.rank(), rank())
    kept = dist.new_group(backwards, sort_ranks=False)
    equal((kept.rank(), dist.get_process_group_ranks(kept)),
          (size() - 1 - rank(), backwards))
    for one in (group, kept):
        dist.destroy_process_group(one)


def test_split_groups():
    for options in ({"split_ranks": [everyone()]},
                    {"split_ranks": [[r] for r in everyone()]},
                    {"split_ranks": [everyone()], "timeout": 3600},
                    {"split_ranks": [everyone()], "group_desc": "mine"},
                    {"split_ranks": [everyone()], "pg_options": object()},
                    {"split_ranks": [everyone()],
                     "backend": dist.get_backend()},
                    {"parent_pg": dist.group.WORLD,
                     "split_ranks": [everyone()]}):
        group = dist.split_group(**options)
        members = next(m for m in options["split_ranks"] if rank() in m)
        equal(dist.get_process_group_ranks(group), members)
        equal(group.parent, dist.group.WORLD)
        x = mine()
        dist.all_reduce(x, group=group)
        all_equal(x, sum(r + 1 for r in members))
        dist.destroy_process_group(group)


def test_a_place_in_the_list_is_the_rank():
    if size() < 3:
        return
    outer = dist.split_group(split_ranks=[[2, 0], [1]] if size() == 3
                             else [[3, 1, 2], [0]])
    members = dist.get_process_group_ranks(outer)
    if size() == 4 and rank() > 0:
        equal(members, [3, 1, 2])
        inner = dist.split_group(outer, [[2, 0], [1]])
        equal(dist.get_process_group_ranks(inner),
              [1] if rank() == 1 else [2, 3])
        x = mine()
        dist.all_reduce(x, group=inner)
        all_equal(x, 2 if rank() == 1 else 7)
        equal(inner.parent, outer)
    elif size() == 3 and rank() != 1:
        equal((members, outer.rank()), ([2, 0], 0 if rank() == 2 else 1))
        x = mine()
        dist.broadcast(x, group_src=0, group=outer)
        all_equal(x, 3)
    dist.barrier()
    # The children first, or with their parent.
    dist.destroy_process_group(outer)


def test_splits_by_color():
    color = rank() % 2
    group = dist.split_group_by_color(color, key=-rank(), group_desc="parity")
    equal(dist.get_process_group_ranks(group),
          [r for r in everyone() if r % 2 == color][::-1])
    # Siblings at once.
    x = mine()
    dist.all_reduce(x, group=group)
    all_equal(x, sum(r + 1 for r in everyone() if r % 2 == color))
    none = dist.split_group_by_color(-1 if rank() == 0 else 0)
    equal(bool(none), rank() != 0)
    equal(dist.split_group_by_color(0, parent_pg=none).size()
          if none else -1, size() - 1 if none else -1)


def test_a_rank_in_no_list():
    group = dist.split_group(split_ranks=[[0]])
    equal(bool(group), rank() == 0)
    dist.barrier()
    if rank() == 0:
        equal(group.size(), 1)
        dist.destroy_process_group(group)


def test_subgroups():
    """Equal groups, and groups by lists, as programs of PyTorch make them."""
    for width in {1, size()}:
        mine, all_groups = dist.new_subgroups(width)
        first = rank() - rank() % width
        equal(dist.get_process_group_ranks(mine),
              list(range(first, first + width)))
        equal(len(all_groups), size() // width)
        equal([bool(one) for one in all_groups],
              [i == rank() // width for i in range(size() // width)])
        x = mine_sum = np.ones(3)
        dist.all_reduce(x, group=mine)
        all_equal(mine_sum, width)
        dist.destroy_process_group(mine)
    with new_world() as outer:
        inner, _ = dist.new_subgroups(group_size=size(), group=outer)
        equal(inner.parent, outer)
        equal(inner.size(), size())
    # The last rank alone; the others in two lists, of which one is backwards.
    lists = [[size() - 1]] + ([[size() - 2, 0]] if size() > 2 else [])
    own, groups = dist.new_subgroups_by_enumeration(lists)
    place = next((i for i, one in enumerate(lists) if rank() in one), None)
    equal([bool(one) for one in groups],
          [i == place for i in range(len(lists))])
    if place is None:
        equal(own, dist.GroupMember.NON_GROUP_MEMBER)
    else:
        equal(dist.get_process_group_ranks(own), sorted(lists[place]))
        check(groups[place] is own)
        dist.destroy_process_group(own)
    for bad in (None, 0, size() + 1):
        error = refused(dist.new_subgroups, bad, kind=ValueError,
                        reason="kInvalidArgument")
        check("group_size" in str(error), error)
    refused(dist.new_subgroups_by_enumeration, [[0], [0]], kind=ValueError)
    for bad in (None, 3, [0, 1]):
        refused(dist.new_subgroups_by_enumeration, bad, kind=TypeError,
                says="Next: ")
    dist.barrier()


def test_backend_strings():
    equal(dist.parse_backend("gloo"), {"cpu": "gloo"})
    equal(list(dist.parse_backend("cuda:nccl, cpu:gloo").items()),
          [("cuda", "nccl"), ("cpu", "gloo")])
    equal(dist.format_backend({"cpu": "gloo", "cuda": "nccl"}),
          "cpu:gloo,cuda:nccl")
    refused(dist.parse_backend, "cpu:gloo:1", kind=ValueError,
            reason="kBackendFormat")
    refused(dist.parse_backend, "gpu:gloo", kind=RuntimeError,
            reason="kDeviceUnknown")
    refused(dist.format_backend, 3, kind=TypeError)


class Thing:
    pass


def test_the_registry_keeps_objects():
    registry = dist.registry
    check(isinstance(registry, dist.GroupRegistry))
    before = registry.size()
    group = dist.new_group(group_desc="mine")
    equal(registry.size(), before + 1)
    record = registry.get(group)
    check(isinstance(record, dist.GroupRecord))
    equal(record, (everyone(), "mine", {r: r for r in everyone()},
                   group.backends()))
    equal((record.global_ranks, record.group_desc, record.device_backends,
           record.rank_to_group_rank[rank()]),
          (registry.get_global_ranks(group), registry.get_group_desc(group),
           group.backends(), registry.get_rank_map(group)[rank()]))
    equal(registry.get(None).group_desc, dist.group.WORLD.group_desc)
    first, second = Thing(), Thing()
    gone = [weakref.ref(first), weakref.ref(second)]
    registry.set_data(group, "thing", first)
    check(registry.get_data(group, "thing") is first)
    registry.set_data(group, "thing", second)
    registry.set_data(group, "again", second)
    del first
    equal(gone[0](), None)
    check(registry.get_data(group, "thing") is second)
    registry.set_data(group, "thing", None)
    equal(registry.get_data(group, "thing"), None)
    refused(registry.get_data, group, "none", kind=AssertionError,
            reason="kGroupUnknown")
    refused(registry.create, group, everyone(), kind=AssertionError,
            reason="kGroupDuplicate")
    del second
    check(gone[1]() is not None)
    dist.destroy_process_group(group)
    equal((gone[1](), registry.get(group)), (None, None))
    for call in (registry.assert_registered, registry.get_global_ranks,
                 registry.get_rank_map, registry.get_group_desc):
        refused(call, group, kind=AssertionError, reason="kGroupUnknown",
                says="not registered")
    refused(registry.set_data, group, "thing", 1, kind=AssertionError,
            reason="kGroupUnknown")
    registry.destroy(group)
    # Entries that a program makes and takes out itself.
    with new_world() as other:
        registry.destroy(other)
        equal(registry.get(other), None)
        registry.create(other, everyone()[:1], "first")
        equal(registry.get(other)[:2], ([0], "first"))
    refused(registry.set_data, 3, "a", 1, kind=TypeError)


def test_queries_of_groups():
    world = dist.group.WORLD
    equal(world, dist.group.WORLD)
    equal(hash(world), hash(dist.group.WORLD))
    check(world != dist.GroupMember.NON_GROUP_MEMBER and world != 3)
    equal((world.rank(), world.size()), (rank(), size()))
    equal(world.uid, dist.group.WORLD.uid)
    equal((world.group_name, world.group_desc, world.parent),
          ("world", "world", None))
    backend = dist.get_backend()
    expected = os.environ.get("DISTWRAP_BACKEND", backend)
    equal((backend, world.name(), dist.get_backend(world)), (expected,) * 3)
    check(any(backend in text for text in world.backends()), world.backends())
    check("f32" in dist.capabilities()["all_reduce/sum"])
    equal(dist.capabilities(world, (1, 0)), dist.capabilities())
    refused(dist.capabilities, device=(2, 0), kind=ValueError,
            reason="kNoCommunicator")
    check(dist.is_available() and dist.is_initialized())
    with new_world(timeout=50) as group:
        equal(group.timeout, 50.0)
        dist.set_timeout(group, datetime.timedelta(seconds=70))
        equal(group.timeout, 70.0)
        dist.set_timeout(group, float("inf"))
        equal(group.timeout, float("inf"))
        check(group != world and group.uid != world.uid)


def test_splits_of_rows():
    """Zeros, one side alone, an empty list, a short sum, two dimensions."""
    rows = [0 if r == 0 else 2 for r in everyone()]
    x = np.full((sum(rows), 3), rank(), "i4")
    got = np.zeros((rows[rank()] * size(), 3), "i4")
    dist.all_to_all_single(got, x, [rows[rank()]] * size(), rows)
    equal(got[:, 0].tolist(), [r for r in everyone()
                               for _ in range(rows[rank()])])
    even, out = np.arange(2 * size(), dtype="i4"), np.zeros(2 * size(), "i4")
    expected = [2 * rank() + i for _ in everyone() for i in range(2)]
    for splits in ({}, {"output_split_sizes": [2] * size()},
                   {"input_split_sizes": [2] * size()},
                   {"output_split_sizes": [], "input_split_sizes": []}):
        out[:] = -1
        dist.all_to_all_single(out, even, **splits)
        equal(out.tolist(), expected, splits)
    # Rows beyond the sum stay as they are.
    out = np.full(2 * size() + 3, -1, "i4")
    dist.all_to_all_single(out, even, [2] * size(), [2] * size())
    equal(out.tolist(), expected + [-1] * 3)


# ---- start and end ----

def test_sessions_of_one_job():
    """A library's session beside the program's."""
    store = dist.HashStore() if size() == 1 else None
    options = ({"store": store, "rank": 0, "world_size": 1} if size() == 1
               else None)
    if options is None:
        return
    session = dist.create_session(**options)
    check(isinstance(session, dist.Session))
    world = session.world()
    check(world != dist.group.WORLD)
    thing = Thing()
    gone = weakref.ref(thing)
    session.registry().set_data(world, "thing", thing)
    check(session.registry().get_data(world, "thing") is thing)
    refused(dist.registry.get_data, None, "thing", kind=AssertionError)
    del thing
    x = np.ones(3)
    dist.all_reduce(x, group=world)
    session.close()
    equal(gone(), None)
    refused(dist.all_reduce, x, group=world)
    dist.all_reduce(x)


def test_starts_with_options():
    """Each way to start, among ranks that are threads of this process."""
    minute = datetime.timedelta(minutes=1)
    for options in ({}, {"backend": None}, {"backend": "gloo"},
                    {"backend": "cpu:gloo"}, {"timeout": minute},
                    {"timeout": 60.0}, {"device_id": 0},
                    {"group_name": "train"}, {"pg_options": object()},
                    {"hints": {}}, {"init_timeout": 30}, {"straggler": 10},
                    {"check": False}, {"check": True}):
        def body(number, options=options):
            x = np.ones(4)
            dist.all_reduce(x)
            all_equal(x, 2)
            equal((dist.get_rank(), dist.get_world_size()), (number, 2))
            world = dist.group.WORLD
            if "timeout" in options:
                equal(world.timeout, 60.0)
            equal(world.group_desc, options.get("group_name", "world"))
            refused(dist.init_process_group, store=dist.HashStore(), rank=0,
                    world_size=1, kind=ValueError,
                    reason="kAlreadyInitialized")
        if rank() == 0:
            thread_ranks(2, body, **options)
    dist.barrier()


def test_strict_compatibility():
    def body(_):
        refused(dist.new_group, [0], kind=AssertionError,
                reason="kNewGroupDisabled",
                says=("new_group is not supported", "split_group"))
        if dist.get_rank() == 0:
            check(dist.split_group(split_ranks=[[0]]))
        else:
            refused(dist.split_group, split_ranks=[[0]], kind=ValueError,
                    reason="kRankNotInSplit")
    if rank() == 0:
        for name in ("drop_in", "use_torchcomms"):
            thread_ranks(2, body, backend="gloo", **{name: True})
    dist.barrier()


def alone(body, **options):
    """Runs body in a thread with a session of one rank."""
    thread_ranks(1, lambda _: body(), **options)


def in_thread(body):
    """Runs body in a thread that has no session of its own."""
    failures = []

    def run():
        try:
            body()
        except BaseException as error:
            failures.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_destroying():
    def body():
        child = dist.split_group(split_ranks=[[0]])
        grandchild = dist.split_group(child, [[0]])
        x = np.ones(5)
        work = dist.all_reduce(x, group=grandchild, async_op=True)
        dist.destroy_process_group()
        check(work.is_completed())
        dist.destroy_process_group(child)  # dead already
        for group in (child, grandchild):
            refused(dist.all_reduce, x, group=group)
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    if rank() == 0:
        alone(body)
    with new_world() as group:
        child = dist.split_group(group, [everyone()])
        works = [dist.all_reduce(mine(), group=child, async_op=True)
                 for _ in range(3)]
    for work in works:
        work.wait()
    dist.destroy_process_group(child)


def test_a_failed_start_leaves_nothing():
    def body():
        refused(dist.init_process_group, "nosuch", store=dist.HashStore(),
                rank=0, world_size=1, kind=ValueError,
                reason="kBackendUnknown", says="Unknown backend: 'nosuch'")
        refused(dist.init_process_group, "cpu:gloo:2", store=dist.HashStore(),
                rank=0, world_size=1, kind=ValueError,
                reason="kBackendFormat", says="Invalid backend format")
        refused(dist.init_process_group, "gpu:gloo", store=dist.HashStore(),
                rank=0, world_size=1, kind=RuntimeError,
                reason="kDeviceUnknown")
        refused(dist.init_process_group, "cpu:gloo,cpu:shm",
                store=dist.HashStore(), rank=0, world_size=1, kind=ValueError,
                reason="kDeviceDuplicate", says="Duplicate device type")
        refused(dist.init_process_group, store=dist.HashStore(), rank=5,
                world_size=2, kind=ValueError, reason="kInvalidArgument")
        refused(dist.init_process_group, store=dist.HashStore(),
                init_method="tcp://localhost:1", rank=0, world_size=1,
                kind=AssertionError, reason="kStoreConflict")
        refused(dist.init_process_group, store=dist.HashStore(), rank=0,
                world_size=2, init_timeout=0.001, kind=TimeoutError,
                reason="kTimedOut")
        refused(dist.init_process_group, store=dist.HashStore(), rank=0,
                world_size=1, hints={"nosuch": 1}, kind=ValueError,
                reason="kInvalidArgument")
        # The next one starts all the same, and a short limit of operations is
        # none of the start.
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1,
                                timeout=0.001)
        equal(dist.group.WORLD.timeout, 0.001)
        dist.destroy_process_group()
    if rank() == 0:
        in_thread(body)


def test_a_session_is_bound_to_threads():
    if size() > 1:
        return
    made = []
    first = dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                                group_name="first")
    def body():
        # The only session of its own kind is every thread's.
        dist.bind_session(first)
        made.append(dist.group.WORLD.group_desc)
        dist.bind_session(None)
        made.append(dist.group.WORLD)
    in_thread(body)
    equal(made[0], "first")
    first.close(1)


def test_stores():
    store = dist.HashStore()
    check(isinstance(store, dist.Store))
    store.set("a", b"1")
    equal(store.get("a"), b"1")
    equal(store.add("n", 2), 2)
    equal(store.add(key="n", delta=3), 5)
    equal(store.compare_set("a", b"1", b"2"), b"2")
    equal(store.compare_set("a", b"1", b"3"), b"2")
    store.wait(["a", "n"], 1)
    refused(store.get, "none", 0.01, kind=TimeoutError, reason="kTimedOut")
    refused(store.wait, ["none"], datetime.timedelta(milliseconds=10),
            kind=TimeoutError)
    equal((store.delete_key("a"), store.delete_key("a")), (True, False))
    check(isinstance(store.address, str))
    store.set("bytes", bytes(range(256)), timeout=5)
    equal(store.get("bytes"), bytes(range(256)))
    refused(dist.connect_store, "unix:/nonexistent/store", 0.05)
    refused(dist.connect_store, "nonsense", kind=ValueError)


# ---- time limits, works ----

def test_time_limits():
    if size() == 1:
        return
    for parent in (False, True):
        with new_world(group_desc="slow") as outer:
            group = dist.split_group(outer, [everyone()]) if parent else outer
            if rank() == 0:
                before = time.monotonic()
                error = refused(dist.all_reduce, mine(), group=group,
                                timeout=0.1, label="late",
                                kind=TimeoutError, reason="kTimedOut")
                check(isinstance(error, RuntimeError))
                check(0.08 < time.monotonic() - before < 2)
                equal((error.op, error.label, error.limit),
                      ("all_reduce", "late", 0.1))
                equal(sorted(error.ranks), everyone()[1:])
                check(error.page and error.setting, error)
                equal(sorted(one["rank"] for one in error.seen),
                      everyone()[1:], error.seen)
                check(error.elapsed == 0 or error.elapsed >= 0.1, error.elapsed)
                error = refused(dist.barrier, group, kind=RuntimeError,
                                reason="kGroupBroken")
            dist.barrier()
            if rank() != 0:
                refused(dist.all_reduce, mine(), group=group,
                        kind=RuntimeError)


def test_a_wait_may_end_before_the_operation():
    if size() == 1:
        return
    x = mine()
    if rank() == 0:
        work = dist.all_reduce(x, async_op=True)
        error = refused(work.wait, 0.01, kind=TimeoutError,
                        reason="kWaitExpired")
        check(isinstance(error, RuntimeError))
        refused(work.wait, timeout=datetime.timedelta(milliseconds=1),
                kind=TimeoutError)
        refused(dist.wait_all, [work], 0.01, kind=TimeoutError)
        refused(dist.wait_any, [work], 0.01, kind=TimeoutError)
        check(not work.is_completed() and not work.is_success())
        dist.send(np.ones(1), 1)
        equal(work.wait(), True)
    else:
        if rank() == 1:
            dist.recv(np.ones(1), 0)
        dist.all_reduce(x)
    all_equal(x, total())


def test_a_failed_work_fails_each_time():
    if size() == 1:
        return
    with new_world() as group:
        work = None
        if rank() == 0:
            work = dist.all_reduce(mine(), group=group, async_op=True)
            time.sleep(0.02)
            dist.abort(group)
        dist.barrier()
        if work is not None:
            for _ in range(2):
                refused(work.wait, kind=RuntimeError, reason="kAborted")
            check(work.is_completed() and not work.is_success())
            equal(work.exception().reason, "kAborted")
            check(isinstance(work.exception(), dist.DistRuntimeError))
        else:
            refused(dist.barrier, group, kind=RuntimeError)


def test_works():
    called, ended, x = [], threading.Event(), mine()
    work = dist.all_reduce(x, async_op=True)

    def done(given):
        called.append(given)
        ended.set()
    work.add_done_callback(done)
    work.wait()
    check(ended.wait(5))
    equal((len(called), called[0] is work), (1, True))
    check(len(work.result()) == 1 and work.result()[0] is x, work.result())
    # At once, or in the thread that is still at the first.
    ended.clear()
    work.add_done_callback(callback=done)
    check(ended.wait(5))
    equal(len(called), 2)
    fd = work.event_fd()
    import select
    check(select.select([fd], [], [], 5)[0] == [fd])
    check(work.seq() > 0)
    other = dist.barrier(async_op=True)
    equal(other.seq(), work.seq() + 1)
    other.wait()
    refused(other.cancel)
    equal(dist.wait_all([work, other]), None)
    check(dist.wait_any(works=[work, other], timeout=1) in (0, 1))
    equal(work.wait(5), True)


def test_uneven_gathers_at_once():
    calls = []
    for i in range(2):
        outs = [np.zeros(3 * r + i + 1, "i4") for r in everyone()]
        x = np.full(3 * rank() + i + 1, 10 * i + rank(), "i4")
        calls.append((dist.all_gather(outs, x, async_op=True), i, outs))
    for work, i, outs in calls:
        work.wait()
        for r, out in enumerate(outs):
            all_equal(out, 10 * i + r)


def test_averages_round_toward_zero():
    x = np.array([-3 if rank() == 0 else 0, 3 if rank() == 0 else 0], "i4")
    dist.all_reduce(x, Op.AVG)
    equal(x.tolist(), [int(-3 / size()), int(3 / size())])
    x = np.ones(4096, "f2")
    dist.all_reduce(x)
    all_equal(x, size())


def test_mismatched_calls_are_named():
    if size() == 1:
        return
    with new_world() as group:
        error = refused(dist.all_reduce,
                        np.ones(4 if rank() == 0 else 5, "f4"), group=group,
                        kind=RuntimeError)
        check(error.reason in ("kCallMismatch", "kGroupBroken"), error)
        refused(dist.barrier, group, kind=RuntimeError)


def test_errors_as_exceptions():
    import pickle
    error = refused(dist.broadcast, mine(), kind=ValueError,
                    reason="kRootMissing", says="src")
    equal((error.op, error.code), ("broadcast", 3))
    copy = pickle.loads(pickle.dumps(error))
    equal((type(copy), str(copy), copy.reason, copy.next_step),
          (type(error), str(error), error.reason, error.next_step))
    for kind, base in ((dist.DistValueError, ValueError),
                       (dist.DistAssertionError, AssertionError),
                       (dist.DistRuntimeError, RuntimeError),
                       (dist.DistTimeoutError, TimeoutError),
                       (dist.DistTimeoutError, RuntimeError),
                       (dist.DistNotImplementedError, NotImplementedError)):
        check(issubclass(kind, base) and issubclass(kind, dist.DistError))


def test_surface():
    refused(getattr, dist, "nosuch", kind=AttributeError,
            says="has no attribute")
    check(dist.__version__.count(".") == 2, dist.__version__)
    if size() == 1:
        check(os.path.exists(dist.save_recording()))


if __name__ == "__main__":
    main(globals())
