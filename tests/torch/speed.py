"""The speed of the backend beside PyTorch's gloo, in turns in one run.

  PYTHONPATH=build/release/python python tests/torch/speed.py

Every figure is the median over rounds; in each round both backends do the same
number of calls, one after the other.
"""

import os
import statistics
import subprocess
import sys
import time

import torch
import torch._dynamo  # noqa: F401
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.fsdp as fsdp

import distwrap.torch  # noqa: F401
from support import fork_ranks, ranks_of_job

ROUNDS = int(os.environ.get("ROUNDS", "9"))


def median_times(calls, count):
    """The median time of one call of each, in microseconds."""
    times = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):
        for name, call in calls.items():
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - begin) / count * 1e6)
    return {name: statistics.median(one[1:]) for name, one in times.items()}


def say(what, times):
    if dist.get_rank() == 0:
        ours, theirs = times["distwrap"], times["gloo"]
        print(f"{what:34} {ours:10.1f} {theirs:10.1f} us  {ours / theirs:6.3f}",
              flush=True)


def one_rank(rank):
    fake = dist.new_group(backend="fake")
    x = torch.ones(2)
    times = median_times({"distwrap": lambda: dist.all_reduce(x),
                          "fake": lambda: dist.all_reduce(x, group=fake)}, 3000)
    print(f"all_reduce 8 B, 1 rank: {times['distwrap']:.2f} us, fake "
          f"{times['fake']:.2f} us, above it "
          f"{times['distwrap'] - times['fake']:.2f} us", flush=True)


def two_ranks(rank):
    gloo = dist.new_group(backend="gloo")
    groups = {"distwrap": dist.group.WORLD, "gloo": gloo}
    for size, count in ((8, 1000), (4096, 500), (65536, 200), (1 << 20, 30),
                        (16 << 20, 4)):
        x = torch.ones(size // 4)
        say(f"all_reduce {size} B", median_times(
            {name: lambda g=group: dist.all_reduce(x, group=g)
             for name, group in groups.items()}, count))
    x = torch.ones(2)
    say("all_reduce 8 B, begun", median_times(
        {name: lambda g=group: dist.all_reduce(x, group=g, async_op=True).wait()
         for name, group in groups.items()}, 500))
    say("functional all_reduce 8 B", median_times(
        {name: lambda g=group: funcol.wait_tensor(
            funcol.all_reduce(x, "sum", g)) for name, group in groups.items()},
        200))
    trainers(groups)
    make_groups(2)


def trainers(groups):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__),
                                    "../../examples/python"))
    from torch_models import Gpt, Llama, loss_of, text

    def stepper(model, call):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

        def step():
            call(model).backward()
            optimizer.step()
            optimizer.zero_grad()
        return step

    tokens, targets = text(dist.get_rank(), 0)
    loss = lambda model: loss_of(model(tokens), targets)  # noqa: E731
    ddp = torch.nn.parallel.DistributedDataParallel
    say("DDP step", median_times(
        {name: stepper(ddp(Gpt(), process_group=group), loss)
         for name, group in groups.items()}, 5))

    def sharded(group):
        model = Llama()
        mesh = dist.device_mesh.DeviceMesh.from_group(group, "cpu")
        for block in model.blocks.values():
            fsdp.fully_shard(block, mesh=mesh)
        fsdp.fully_shard(model, mesh=mesh)
        return model
    say("FSDP2 step", median_times(
        {name: stepper(sharded(group), loss) for name, group in groups.items()},
        5))

    rows = torch.randint(0, 40000, (64,))

    def embedding():
        torch.manual_seed(0)
        return torch.nn.Embedding(40000, 128)
    say("step of embeddings, 20 MiB", median_times(
        {name: stepper(ddp(embedding(), process_group=group),
                       lambda model: model(rows).sum())
         for name, group in groups.items()}, 2))


def make_groups(size):
    def making(backend):
        def make():
            group = dist.new_group(backend=backend)
            dist.barrier()  # gloo connects late, and an end would break it
            dist.destroy_process_group(group)
        return make
    say(f"new_group and its end, {size} ranks", median_times(
        {name: making(name) for name in ("distwrap", "gloo")}, 5))


def a_mesh(backend):
    def body(rank):
        times = []
        for _ in range(ROUNDS):
            dist.barrier()
            begin = time.perf_counter()
            mesh = dist.device_mesh.init_device_mesh(
                "cpu", (2, 2), mesh_dim_names=("a", "b"))
            times.append((time.perf_counter() - begin) * 1e6)
            for name in ("a", "b"):
                dist.destroy_process_group(mesh[name].get_group())
        if rank == 0:
            print(f"2 x 2 mesh, {backend}: {statistics.median(times[1:]):.0f} us",
                  flush=True)
    return body


def import_times():
    def best(text):
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", text], check=True)
            times.append(time.perf_counter() - begin)
        return min(times)
    plain = best("import torch, torch.distributed")
    ours = best("import torch, torch.distributed, time, sys\n"
                "begin = time.perf_counter()\n"
                "import distwrap.torch\n"
                "print('import distwrap.torch:', round((time.perf_counter() - "
                "begin) * 1e3, 1), 'ms', file=sys.stderr)")
    print(f"the whole program: {ours:.3f} s, without it {plain:.3f} s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or ["1", "2", "4", "import"]
    print(f"PyTorch {torch.__version__}", flush=True)
    if "1" in wanted:
        ranks_of_job(1, one_rank, timeout=None)
    if "2" in wanted:
        ranks_of_job(2, two_ranks)
    if "4" in wanted:
        for name in ("gloo", "distwrap"):
            ranks_of_job(4, a_mesh(name), name)
    if "import" in wanted:
        import_times()
