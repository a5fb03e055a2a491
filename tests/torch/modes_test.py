"""The facade in a program with PyTorch: one world for both, and passthrough."""

import os
import sys
import tempfile
import threading
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as td
from torch.nn.parallel import DistributedDataParallel

import distwrap as dist
from support import check, equal, fork_ranks, refused

# Names that are PyTorch's own objects while a session has PyTorch's world.
SHARED = ("GroupMember", "HashStore", "ProcessGroup", "ReduceOp", "Store",
          "Work", "get_process_group_ranks", "get_rank", "get_world_size",
          "group", "is_available", "is_initialized")
# Extensions: what PyTorch lacks.
LACKING = ("all_gather_v", "exscan", "new_window", "save_recording",
           "scatter_tensor", "split_group_by_color", "wait_all")


def job(count, body, **options):
    """body(rank) in processes whose facade has been started."""
    with tempfile.TemporaryDirectory() as folder:
        def run(rank):
            dist.init_process_group(init_method=f"file://{folder}/job",
                                    rank=rank, world_size=count, **options)
            body(rank)
            dist.destroy_process_group()
            check(not td.is_initialized(), "PyTorch still has a world")
        codes = fork_ranks(count, run)
    check(not any(codes), "ranks ended with", codes)


def passed_through(count, body, backend="gloo"):
    with tempfile.TemporaryDirectory() as folder:
        def run(rank):
            dist.init_process_group(
                backend, mode="passthrough", rank=rank, world_size=count,
                init_method=f"file://{folder}/store", timeout=30)
            body(rank)
            dist.destroy_process_group()
        codes = fork_ranks(count, run)
    check(not any(codes), "ranks ended with", codes)


def test_the_world_is_that_of_pytorch():
    before = {name: getattr(dist, name) for name in SHARED}

    def body(rank):
        equal(td.get_backend(), "distwrap")
        for name in SHARED:
            check(getattr(dist, name) is getattr(td, name), name)
        equal((dist.get_rank(), td.get_rank()), (rank, rank))
        equal((dist.get_world_size(), td.get_world_size()), (3, 3))
        for call in (dist.all_reduce, td.all_reduce):
            for group in (None, dist.group.WORLD):
                x = torch.full((4,), float(rank))
                call(x, group=group)
                equal(x, torch.full((4,), 3.0))
        # PyTorch's own parts run over it.
        model = DistributedDataParallel(torch.nn.Linear(2, 1))
        model(torch.full((1, 2), float(rank))).sum().backward()
        equal(model.module.weight.grad, torch.full((1, 2), 1.0))
        told = [None] * 3
        td.all_gather_object(told, {"rank": rank})
        equal(told, [{"rank": i} for i in range(3)])
        dist.destroy_process_group()
        for name, value in before.items():
            check(getattr(dist, name) is value, name)
        check(not td.is_initialized() and not dist.is_initialized())
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        equal(td.get_world_size(), 1)
    job(3, body)


def test_groups_are_groups_of_pytorch():
    def body(rank):
        pair = dist.new_group([1, 2])
        if rank in (1, 2):
            check(isinstance(pair, td.ProcessGroup), pair)
            equal(dist.get_process_group_ranks(pair), [1, 2])
            equal(dist.get_rank(pair), rank - 1)
            for call in (dist.all_reduce, td.all_reduce):
                x = torch.tensor([rank])
                call(x, group=pair)
                equal(x.item(), 3)
            work = dist.all_reduce(x, group=pair, async_op=True)
            work.wait()
            equal(x.item(), 6)
            equal(dist.get_global_rank(pair, 1), 2)
            dist.destroy_process_group(pair)
        else:
            check(pair is td.GroupMember.NON_GROUP_MEMBER, pair)
        reverse = dist.new_group([2, 1, 0], sort_ranks=False)
        equal(dist.get_rank(reverse), 2 - rank)
        x = torch.tensor([rank])
        dist.broadcast(x, group_src=0, group=reverse)
        equal(x.item(), 2)
        own, all_of_them = dist.new_subgroups(1)
        equal(dist.get_process_group_ranks(own), [rank])
        check(all_of_them[rank] is own)
        check(all_of_them[(rank + 1) % 3] is td.GroupMember.NON_GROUP_MEMBER)
        colored = dist.split_group_by_color(rank % 2, parent_pg=reverse)
        equal(dist.get_process_group_ranks(colored), [2, 0] if rank % 2 == 0
              else [1])
        # Groups that PyTorch makes are groups of the session.
        theirs = td.new_group([0, 2])
        if rank != 1:
            x = torch.tensor([rank])
            dist.all_reduce(x, group=theirs)
            equal(x.item(), 2)
        foreign = td.new_group(backend="gloo")
        x = torch.tensor([rank])
        td.all_reduce(x, group=foreign)
        equal(x.item(), 3)
        refused(dist.all_reduce, x, group=foreign, kind=TypeError,
                says="give a ProcessGroup")
    job(3, body)


def test_the_store_is_one_of_pytorch():
    def body(rank):
        store = td.distributed_c10d._get_default_store()
        prefixed = td.PrefixStore("mine", store)
        if rank == 0:
            prefixed.set("color", "blue")
        prefixed.wait(["color"], timedelta(seconds=20))
        equal(prefixed.get("color"), b"blue")
        equal(prefixed.check(["color"]), True)
        equal(prefixed.check(["none"]), False)
        prefixed.add("count", rank + 1)
        td.barrier()
        equal(prefixed.add("count", 0), 3)
        td.barrier()
        if rank == 0:
            equal(prefixed.compare_set("color", "blue", "red"), b"red")
            equal(prefixed.delete_key("color"), True)
            equal(prefixed.delete_key("color"), False)
        refused(prefixed.wait, ["none"], timedelta(milliseconds=50))
    job(2, body)


def test_the_end_in_pytorch_leaves_the_session():
    def body(rank):
        td.destroy_process_group()
        check(dist.get_rank is not td.get_rank)
        equal(dist.get_rank(), rank)
        x = torch.tensor([rank])
        dist.all_reduce(x)
        equal(x.item(), 1)
    job(2, body)


def test_a_world_of_the_program_stays():
    def body(_):
        before = dist.get_rank
        with tempfile.TemporaryDirectory() as folder:
            td.init_process_group("gloo", init_method=f"file://{folder}/store",
                                  rank=0, world_size=1)
            world = td.group.WORLD
            dist.init_process_group(store=dist.HashStore(), rank=0,
                                    world_size=1)
            check(td.group.WORLD is world)
            check(dist.get_rank is before)
            dist.destroy_process_group()
            check(td.group.WORLD is world)
            td.destroy_process_group()
    equal(fork_ranks(1, body), [0])


def test_ranks_that_are_threads():
    def body(_):
        store, told = dist.HashStore(), []

        def run(rank):
            dist.init_process_group(store=store, rank=rank, world_size=3)
            x = torch.tensor([rank])
            dist.all_reduce(x)
            told.append((dist.get_rank(), x.item()))
            dist.destroy_process_group()
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        check(dist.get_rank is td.get_rank)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(sorted(told), [(0, 3), (1, 3), (2, 3)])
        dist.destroy_process_group()
        check(not td.is_initialized())
    equal(fork_ranks(1, body), [0])


def test_a_failed_start_of_pytorch_ends_the_session():
    def body(_):
        start, seen = td.init_process_group, []

        def fail(*_, **__):
            seen.append(dist.is_initialized())
            raise RuntimeError("meant")
        td.init_process_group = fail
        refused(dist.init_process_group, store=dist.HashStore(), rank=0,
                world_size=1, kind=RuntimeError, says="meant")
        equal(seen, [True])
        check(not dist.is_initialized())
        td.init_process_group = start
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        dist.destroy_process_group()
    equal(fork_ranks(1, body), [0])


def test_passthrough_calls_torch():
    def body(rank):
        equal(td.get_backend(), "gloo")
        for name in (*SHARED, "all_reduce", "broadcast", "new_group", "send",
                     "batch_isend_irecv", "P2POp", "all_gather_object"):
            check(getattr(dist, name) is getattr(td, name), name)
        x = torch.tensor([rank])
        dist.all_reduce(x)
        equal(x.item(), 3)
        for name in LACKING:
            error = refused(getattr(dist, name), x, kind=AssertionError,
                            says=(name, "requires", "Next: "))
            equal(error.reason, "kNeedsEnabled")
        refused(dist.init_process_group, mode="passthrough", kind=ValueError,
                says="destroy_process_group")
        pair = dist.new_group([0, 2])
        if rank != 1:
            dist.all_reduce(x, group=pair)
            equal(x.item(), 6)
            dist.destroy_process_group(pair)
            check(dist.all_reduce is td.all_reduce)
    passed_through(3, body)


def test_passthrough_of_what_gloo_lacks():
    def body(rank):
        group = dist.new_group([0, 1, 2])
        mine = torch.full((rank, 2), rank)
        rows = [torch.full((i, 2), -1) for i in range(3)]
        dist.all_gather(rows, mine, group=group)
        equal([one.tolist() for one in rows],
              [torch.full((i, 2), i).tolist() for i in range(3)])
        rows = [torch.full((i, 2), -1) for i in range(3)]
        work = dist.all_gather(rows, mine, async_op=True)
        work.wait(timedelta(seconds=20))
        check(work.is_completed())
        equal(rows[2].tolist(), [[2, 2], [2, 2]])
        # To rank i go i + 1 rows.
        sent = [torch.full((i + 1,), 10 * rank + i) for i in range(3)]
        got = [torch.full((rank + 1,), -1) for _ in range(3)]
        dist.all_to_all(got, sent)
        equal([one.tolist() for one in got],
              [[10 * i + rank] * (rank + 1) for i in range(3)])
        even = [torch.zeros(2) for _ in range(3)]
        dist.all_gather(even, torch.full((2,), float(rank)))
        equal(even[1].tolist(), [1.0, 1.0])
    passed_through(3, body)


def test_passthrough_names_what_it_leaves_out():
    def start(**options):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            dist.init_process_group(
                "gloo", mode="passthrough", store=td.HashStore(), rank=0,
                world_size=1, **options)
        dist.destroy_process_group()
        return [one for one in told if "passthrough" in str(one.message)]

    def body(_):
        equal(start(timeout=30), [])
        told, = start(hints={"shm": {}}, check=False, guard="block")
        equal(told.category, RuntimeWarning)
        equal(told.filename, __file__)
        for word in ("leaves out hints, check, guard.", "Next: "):
            check(word in str(told.message), told.message)
    equal(fork_ranks(1, body), [0])


def test_passthrough_leaves_the_door_open():
    def body(_):
        own = td.all_reduce
        dist.init_process_group(
            "gloo", mode="passthrough", guard="block", store=td.HashStore(),
            rank=0, world_size=1)
        check(td.all_reduce is own)
        td.all_reduce(torch.ones(1))
        equal(dist.guard_status()["names"], [])
        dist.destroy_process_group()
        check(dist.all_reduce is not own)
    equal(fork_ranks(1, body), [0])


def test_unknown_modes():
    refused(dist.init_process_group, mode="fast", kind=ValueError,
            says=("'fast'", "enabled, passthrough"))
    refused(getattr, dist, "no_such_name", kind=AttributeError,
            says="has no attribute")


if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    cases = [case for name, case in list(globals().items())
             if name.startswith("test_") and (not wanted or name in wanted)]
    for case in cases:
        begin = time.monotonic()
        case()
        if os.environ.get("TIMES"):
            print(f"{time.monotonic() - begin:7.3f} s {case.__name__}",
                  flush=True)
    print(f"{len(cases)} cases passed")
