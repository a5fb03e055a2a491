"""Start and end, errors, and what is held for how long."""

import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import distwrap
import distwrap.torch
from support import (
    check, equal, fork_ranks, init, python_form, ranks_of_job, refused)

CPU = torch.device("cpu")


def passed(codes):
    check(not any(codes), "ranks ended with", codes)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_names():
    def body(rank):
        equal(dist.get_backend(), "distwrap")
        backend = python_form()
        equal(backend.name(), "distwrap")
        equal((backend.rank(), backend.size()), (rank, 2))
        check(backend.options._timeout > timedelta(0))
        check(backend.supports_coalescing)
    passed(ranks_of_job(2, body))


def test_groups():
    def body(rank):
        world = dist.group.WORLD
        even = dist.new_group([0, 2])
        odd = dist.new_group([1, 3])
        mine = even if rank % 2 == 0 else odd
        x = torch.tensor([rank])
        dist.all_reduce(x, group=mine)
        equal(x.item(), 2 if rank % 2 == 0 else 4)
        # Only the members call.
        if rank in (1, 2):
            pair = dist.new_group([1, 2], use_local_synchronization=True)
            x = torch.tensor([rank])
            dist.broadcast(x, 2, group=pair)
            equal(x.item(), 2)
            dist.destroy_process_group(pair)
        if distwrap.torch.IS_BACKEND:
            # dist.split_group of 2.14 wants a device, which a CPU is not.
            half = world.split_group([0, 1] if rank < 2 else [2, 3],
                                     group_name=f"half {rank // 2}")
            x = torch.tensor([rank])
            half.allreduce([x]).wait()
            equal(x.item(), 1 if rank < 2 else 5)
            equal(half.rank(), rank % 2)
            equal(python_form(half).options.global_ranks_in_group,
                  [0, 1] if rank < 2 else [2, 3])
        mesh = dist.device_mesh.init_device_mesh(
            "cpu", (2, 2), mesh_dim_names=("a", "b"))
        for name, sum_of_ranks in (("a", 2 * (rank % 2) + 2),
                                   ("b", 1 if rank < 2 else 5)):
            x = torch.tensor([rank])
            dist.all_reduce(x, group=mesh[name].get_group())
            equal(x.item(), sum_of_ranks, name)
        dist.destroy_process_group(mine)
        refused(dist.all_reduce, x, group=mine)
        dist.all_reduce(torch.ones(1))
    passed(ranks_of_job(4, body))


def test_a_group_beside_a_foreign_world():
    def body(rank):
        group = dist.new_group(backend="distwrap")
        pair = dist.new_group([0, 2], backend="distwrap")
        for _ in range(3):
            x = torch.tensor([rank])
            dist.all_reduce(x, group=group)
            equal(x.item(), 3)
            if rank != 1:
                x = torch.tensor([rank])
                dist.all_reduce(x, group=pair)
                equal(x.item(), 2)
        dist.all_reduce(torch.ones(1))
    passed(ranks_of_job(3, body, "gloo"))


def test_a_mixed_device_string():
    if not distwrap.torch.IS_BACKEND:
        return
    def body(rank):
        x = torch.tensor([rank])
        dist.all_reduce(x)
        equal(x.item(), 1)
        equal(python_form().name(), "distwrap")
    passed(ranks_of_job(2, body, "cpu:distwrap,cuda:gloo"))


def test_destroy_and_start_anew():
    with tempfile.TemporaryDirectory() as folder:
        def run(rank):
            for turn in range(4):
                init(rank, 2, f"{folder}/{turn}")
                other = dist.new_group()
                x = torch.tensor([rank + turn])
                dist.all_reduce(x, group=other)
                equal(x.item(), 1 + 2 * turn)
                if turn % 2:
                    dist.destroy_process_group(other)
                dist.destroy_process_group()
        passed(fork_ranks(2, run))


def test_the_store_gets_one_key():
    class Spy:
        def __init__(self):
            self.store, self.keys = dist.HashStore(), []

        def set(self, key, value):
            self.keys.append(key)
            self.store.set(key, value)

        def wait(self, keys, timeout):
            self.store.wait(keys, timeout)

        def get(self, key):
            return self.store.get(key)

    spy, made = Spy(), [None] * 3

    def run(rank):
        made[rank] = distwrap.torch._groups.join(
            spy, rank, 3, timedelta(seconds=20), [])
        x = torch.tensor([rank])
        distwrap.all_reduce(x, group=made[rank].core)
        equal(x.item(), 3)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(spy.keys, ["distwrap"])
    for one in made:
        one.close()


def lost_rank(signal_number, step):
    """The exceptions of the other ranks when rank 1 gets a signal."""
    with tempfile.TemporaryDirectory() as folder:
        def run(rank):
            init(rank, 3, f"{folder}/store")
            model = torch.nn.parallel.DistributedDataParallel(
                torch.nn.Sequential(*(torch.nn.Linear(300, 300)
                                      for _ in range(4))), bucket_cap_mb=0.3)
            x, begin = torch.ones(4, 300), None
            for i in range(1000):
                out = model(x).sum()
                if i == step:
                    begin = time.monotonic()
                    if rank == 1:
                        os.kill(os.getpid(), signal_number)
                try:
                    out.backward()
                except RuntimeError as error:
                    check(time.monotonic() - begin < 1, "took",
                          time.monotonic() - begin)
                    check("rank 1" in str(error), error)
                    check("kPeerLost" in str(error), error)
                    again = refused(dist.all_reduce, x,
                                    kind=dist.DistNetworkError)
                    equal(tuple(again.ranks), (1,))
                    dist.destroy_process_group()
                    return 7
        return fork_ranks(3, run)


def test_a_killed_rank_is_named_on_all_others():
    equal(lost_rank(signal.SIGKILL, 3), [7, -9, 7])


def test_a_stopped_rank_is_named_on_all_others():
    os.environ["DISTWRAP_HEARTBEAT"] = "0.4"
    try:
        equal(lost_rank(signal.SIGSTOP, 3), [7, -9, 7])
    finally:
        del os.environ["DISTWRAP_HEARTBEAT"]


def test_what_pytorchs_store_does_not_tell():
    """A rank that cannot learn where rank 0 waits hears of the store."""
    class Silent(dist.HashStore):
        def wait(self, keys, timeout):
            raise RuntimeError("the store is silent")

    def body(_):
        error = refused(
            distwrap.torch._groups.join, Silent(), 1, 2, timedelta(seconds=5),
            [], kind=dist.DistStoreError,
            says=("rank 1 of 2", "the store is silent", "Next: "))
        check(isinstance(error, RuntimeError))
    equal(fork_ranks(1, body), [0])


def test_errors_of_two_ranks_that_differ():
    def body(rank):
        error = refused(dist.all_reduce, torch.ones(2 + rank),
                        kind=dist.DistBackendError, says="kCallMismatch")
        check("f32 x 2" in str(error) and "f32 x 3" in str(error), error)
        equal(error.reason, "kCallMismatch")
    passed(ranks_of_job(2, body))


def test_a_limit_names_who_is_missing():
    def body(rank):
        other = dist.new_group(timeout=timedelta(seconds=0.3))
        if rank != 2:
            error = refused(dist.all_reduce, torch.ones(1), group=other,
                            kind=dist.DistBackendError, says="kTimedOut")
            equal(tuple(error.ranks), (2,))
        dist.barrier()
        third = dist.new_group()
        if rank == 0:
            backend = python_form(third)
            opts = torch._C._distributed_c10d.BarrierOptions()
            opts.timeout = timedelta(seconds=0.2)
            error = refused(distwrap.torch.Calls.monitored_barrier, backend,
                            opts, True, kind=dist.DistBackendError)
            equal(tuple(error.ranks), (1, 2))
        dist.barrier()
    passed(ranks_of_job(3, body))


def test_set_timeout_and_abort():
    def body(rank):
        group = dist.new_group()
        backend = group._get_backend(CPU)
        backend.set_timeout(timedelta(seconds=0.2))
        equal(backend.options._timeout, timedelta(seconds=0.2))
        if rank == 0:
            refused(dist.barrier, group=group, says="kTimedOut")
        dist.barrier()
        group = dist.new_group()
        if rank == 0:
            time.sleep(0.05)
            group._get_backend(CPU).abort()
        else:
            refused(dist.all_reduce, torch.ones(1), group=group,
                    kind=dist.DistBackendError, says="kAborted")
        dist.barrier()
    passed(ranks_of_job(2, body))


def test_errors_reach_wait_and_future():
    def body(rank):
        x = torch.ones(2 + rank)
        work = dist.all_reduce(x, async_op=True)
        refused(work.wait, kind=dist.DistBackendError, says="kCallMismatch")
        group = dist.new_group()
        future = dist.all_reduce(x, group=group, async_op=True).get_future()
        refused(future.wait, kind=RuntimeError,
                says=("DistBackendError", "kCallMismatch"))
    passed(ranks_of_job(2, body))


def test_ten_thousand_calls_leak_nothing():
    def body(rank):
        def some(count):
            for i in range(count):
                x = torch.ones(64)
                work = dist.all_reduce(x, async_op=True)
                if i % 4 == 0:
                    work.wait()
                elif i % 4 == 1:
                    work.get_future()
                elif i % 4 == 2:
                    work.get_future().then(lambda f: None)
                del work
                if i % 100 == 99:  # so that not all are in flight
                    dist.barrier()
            gc.collect()
        some(2000)
        memory = resident()
        objects = len(gc.get_objects())
        some(10000)
        check(resident() - memory < 8 << 20, "grown by", resident() - memory)
        check(len(gc.get_objects()) - objects < 100)
    passed(ranks_of_job(2, body))


def test_buffers_live_to_the_end():
    def body(rank):
        expected = []
        for i in range(50):
            x = torch.full((10000,), float(i + rank))
            expected.append((dist.all_reduce(x, async_op=True), x.data_ptr()))
            view = x
            del x
            if i % 2:
                expected[-1] = None
        for i, one in enumerate(expected):
            if one is not None:
                one[0].wait()
        dist.barrier()  # after all of them
        equal(view[0].item(), 99.0)
    passed(ranks_of_job(2, body))


def test_an_exit_with_work_in_flight():
    program = (
        "import os, sys, torch, torch.distributed as dist, distwrap.torch\n"
        "rank = int(sys.argv[1])\n"
        "dist.init_process_group('distwrap', init_method='file://' + "
        "sys.argv[2], rank=rank, world_size=2)\n"
        "dist.barrier()\n"
        "if rank == 0:\n"
        "    work = dist.all_reduce(torch.ones(4), async_op=True)\n"
        "    future = work.get_future().then(lambda f: f.value())\n"
        "    got = dist.irecv(torch.ones(4), 1)\n")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, "-c", program, str(rank),
                                   f"{folder}/store"],
                                  stderr=subprocess.PIPE, text=True)
                 for rank in range(2)]
        for one in ranks:
            _, text = one.communicate(timeout=60)
            equal((one.returncode, text), (0, ""))


def test_threads_of_one_rank():
    def body(rank):
        groups = [dist.new_group() for _ in range(4)]

        def run(group):
            for i in range(100):
                x = torch.tensor([rank + i])
                dist.all_reduce(x, group=group)
                equal(x.item(), 1 + 2 * i)
        threads = [threading.Thread(target=run, args=(g,)) for g in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    passed(ranks_of_job(2, body))


def test_beside_a_session_of_the_facade():
    """The program's own session stays bound to its thread."""
    def body(rank):
        store = distwrap.HashStore()
        distwrap.init_process_group(store=store, rank=0, world_size=1)
        world = distwrap.group.WORLD
        group = dist.new_group()
        x = torch.tensor([rank])
        dist.all_reduce(x, group=group)
        equal(x.item(), 1)
        check(distwrap.group.WORLD == world)
        distwrap.destroy_process_group()
    passed(ranks_of_job(2, body))


def test_ranks_in_any_order():
    def body(rank):
        make = dist.distributed_c10d._new_group_with_tag
        for ranks in ([2, 0, 1], [1, 2], [2, 1]):
            if rank not in ranks:
                make(ranks)
                continue
            group = make(ranks)
            # c10d sorts the ranks of new_group; its rank is told by it.
            x = torch.tensor([10 * rank])
            outs = [torch.zeros_like(x) for _ in ranks]
            dist.all_gather(outs, x, group=group)
            equal([one.item() for one in outs],
                  [10 * r for r in dist.get_process_group_ranks(group)])
        session = distwrap.torch._groups._world()
        member = distwrap.torch._groups._member_group(
            session, [2, 0, 1], timedelta(seconds=20))
        equal(distwrap.get_rank(member.core), [1, 2, 0][rank])
        member.close()
    passed(ranks_of_job(3, body))


def test_uneven_inputs_by_join():
    from torch.distributed.algorithms.join import Join

    def body(rank):
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Linear(3, 1))
        steps = 0
        with Join([model]):
            for _ in range(2 + 2 * rank):
                model(torch.ones(2, 3)).sum().backward()
                steps += 1
        equal(steps, 2 + 2 * rank)
        x = torch.ones(1)
        dist.all_reduce(x)
        equal(x.item(), 3.0)
    passed(ranks_of_job(3, body))


def test_debug_level_detail():
    """PyTorch then wraps the backend, and compares calls by a gloo group."""
    def body(rank):
        backend = dist.group.WORLD._get_backend(CPU)
        check(type(backend).__name__ == "_ProcessGroupWrapper", type(backend))
        x = torch.tensor([rank])
        dist.all_reduce(x)
        equal(x.item(), 1)
        dist.barrier()
        refused(dist.all_reduce, torch.ones(1 + rank), kind=RuntimeError)
        os._exit(0)  # gloo's end may abort the process
    if not distwrap.torch.IS_BACKEND:
        return
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        passed(ranks_of_job(2, body))
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def test_against_one_process():
    """DDP's and FSDP2's parameters after some steps are those of one process
    that sees the inputs of both ranks."""
    from torch.distributed.fsdp import fully_shard

    def model_of():
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(),
                                   torch.nn.Linear(16, 4))

    def train(model, inputs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in inputs:
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    torch.manual_seed(5)
    batches = [torch.randn(2, 6, 8) for _ in range(5)]
    alone = model_of()
    train(alone, [batch.flatten(0, 1) for batch in batches])

    def body(rank):
        mine = [batch[rank] for batch in batches]
        ddp = torch.nn.parallel.DistributedDataParallel(model_of())
        train(ddp, mine)
        sharded = model_of()
        fully_shard(sharded)
        train(sharded, mine)
        for a, b, c in zip(alone.parameters(), ddp.parameters(),
                           sharded.parameters()):
            check(torch.allclose(a, b, rtol=1e-5, atol=1e-6))
            check(torch.allclose(a, c.full_tensor(), rtol=1e-5, atol=1e-6))
    passed(ranks_of_job(2, body))


def test_torchrun_starts_ranks_of_the_facade():
    """Without PyTorch in the program: torchrun's variables tell the rank."""
    program = ("import distwrap as dist, array, sys\n"
               "dist.init_process_group()\n"
               "x = array.array('d', [dist.get_rank() + 1])\n"
               "dist.all_reduce(x)\n"
               # One write: the ranks share a pipe.
               "sys.stdout.write(f'{dist.get_rank()} of "
               "{dist.get_world_size()}: {x[0]:g} "
               "{\"torch\" in sys.modules}\\n')\n"
               "dist.destroy_process_group()\n")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "program.py")
        path.write_text(program)
        free = {name: value for name, value in os.environ.items()
                if not name.startswith("DISTWRAP_")}
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone",
             "--nproc-per-node", "3", path], env=free | {"OMP_NUM_THREADS": "1"},
            text=True, timeout=120,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    equal(done.returncode, 0)
    equal(sorted(re.findall(r"\d of 3: \d+ \w+", done.stdout)),
          [f"{rank} of 3: 6 False" for rank in range(3)])


def test_tensors_in_the_facade():
    """PyTorch's tensors in calls of the facade: by DLPack's table of functions,
    or by __dlpack__ where PyTorch lacks it."""
    def body(rank):
        mine = distwrap.ReduceOp
        distwrap.init_process_group("shm", store=distwrap.HashStore(), rank=0,
                                    world_size=1)
        for dtype in (torch.float32, torch.float64, torch.bfloat16,
                      torch.float16, torch.int64, torch.uint8):
            x = torch.ones(2, 3).to(dtype)
            distwrap.all_reduce(x, dist.ReduceOp.SUM)
            distwrap.all_reduce(x, mine.MAX, async_op=True).wait()
            check((x == 1).all(), dtype)
            out = torch.zeros(1, 2, 3).to(dtype)
            distwrap.all_gather_into_tensor(out, x)
            check((out == 1).all(), dtype)
        # Elements that move and are not reduced.
        for dtype in (torch.complex64, torch.float8_e4m3fn):
            x = torch.ones(4).to(dtype)
            out = torch.zeros(4).to(dtype)
            distwrap.all_gather_into_tensor(out, x)
            check(torch.equal(out.view(torch.uint8), x.view(torch.uint8)),
                  dtype)
        z = torch.ones(3, dtype=torch.complex128)
        distwrap.all_reduce(z)
        try:
            distwrap.all_reduce(torch.ones(4).to(torch.float8_e4m3fn))
        except NotImplementedError as error:
            check(error.reason == "kUnsupported" and error.next_step, error)
        else:
            raise AssertionError("a sum of 8-bit floats")
        for bad, told in ((torch.ones(4, 4)[:, 0], "strided"),
                          (torch.ones(2, device="meta"), None),
                          (torch.eye(3).to_sparse(), None)):
            try:
                distwrap.all_reduce(bad)
            except (ValueError, TypeError) as error:
                check(told is None or told in str(error), error)
            else:
                raise AssertionError(f"took {bad.device} {bad.layout}")
        array = torch.ones(3).numpy()
        distwrap.all_reduce(array)
        # PyTorch's enumerators, functions and messages.
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
            for given in (getattr(dist.ReduceOp, op),
                          dist.ReduceOp(getattr(dist.ReduceOp, op)), op):
                distwrap.all_reduce(x := torch.ones(2), given)
                distwrap.reduce(x, 0, given)
                check((x == 1).all(), op)
        for factor in (0.5, torch.tensor([0.5])):
            distwrap.all_reduce(x := torch.ones(2),
                                dist._make_nccl_premul_sum(factor))
            check((x == 0.5).all(), factor)
        x, y = torch.ones(2), torch.zeros(2)
        for work in distwrap.batch_isend_irecv(
                [distwrap.P2POp(dist.irecv, y, 0),
                 distwrap.P2POp(dist.isend, x, 0)]):
            work.wait()
        check((y == 1).all())
        # Tensors in objects keep their type.
        for dtype in (torch.bfloat16, torch.float32, torch.int64, torch.bool):
            sent = torch.ones(2, 3).to(dtype)
            got, = distwrap.all_gather_object(None, {"weights": sent})
            check(got["weights"].dtype == dtype
                  and torch.equal(got["weights"], sent), dtype)
        check(distwrap.empty(2, torch.bfloat16).dtype == torch.bfloat16)
        distwrap.destroy_process_group()
    passed(fork_ranks(1, body))


def test_two_gloos_share_no_symbol():
    """Ours and that of libtorch_cpu.so, in both orders of import: neither binds
    a symbol of the other, as the dynamic linker tells."""
    program = """
import {0}, {1}
import os, sys, torch, torch.distributed as dist, distwrap.torch
dist.init_process_group("distwrap", init_method="file://" + sys.argv[2],
                        rank=int(sys.argv[1]), world_size=2)
gloo = dist.new_group(backend="gloo")
for group in (None, gloo, None):
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    assert x[0] == 2
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
backend = getattr(backend, "python_form", backend)
assert distwrap.get_backend(backend._group) == "gloo"
os._exit(0)
"""
    ours = re.compile(r"/(_core\.\S+|libdistwrap|libgloo)\S* \[")
    for order in (("torch", "distwrap"), ("distwrap", "torch")):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", program.format(*order),
                 str(rank), f"{folder}/store"],
                env=os.environ | {"DISTWRAP_BACKEND": "gloo"} | (
                    {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": f"{folder}/ld"}
                    if rank == 0 else {})) for rank in range(2)]
            equal([one.wait(60) for one in ranks], [0, 0], order)
            pairs = 0
            for path in pathlib.Path(folder).glob("ld.*"):
                for line in path.read_text().splitlines():
                    user, _, maker = line.partition(" to ")
                    if "4gloo" not in line.rpartition("`")[2]:
                        continue  # not a name of gloo's
                    if ours.search(user):
                        check("/libtorch" not in maker, line)
                        pairs += "libgloo" in maker
                    elif "/libtorch" in user:
                        check(not ours.search(maker), line)
            check(pairs > 0, "nothing was seen")


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
