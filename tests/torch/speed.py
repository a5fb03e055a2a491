"""The speed of the backend beside PyTorch's gloo, in turns in one run.

  PYTHONPATH=build/release/python python tests/torch/speed.py [--json FILE] [PART...]

PART: 1 (one rank), 2 (two ranks), 4 (a mesh of four), import; all of them without
one. In each round every backend does the same number of calls, one after the
other; a figure is the median over rounds. The rows of the compiled form are there
where `python -m distwrap.torch build` has made it. ROUNDS sets the number.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch._dynamo  # noqa: F401
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.device_mesh as device_mesh
import torch.distributed.fsdp as fsdp

import distwrap.torch  # noqa: F401
from distwrap.torch import _compiled
from support import check, fork_ranks

ROUNDS = int(os.environ.get("ROUNDS", "9"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/python"))

from torch_models import Gpt, Llama, loss_of, text  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


# ---- jobs and groups ----

def job(count, body, backend):
    """The rows that body(rank), which lists them, has on rank 0."""
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        file = pathlib.Path(folder, "rows")

        def run(rank):
            dist.init_process_group(backend, init_method=address, rank=rank,
                                    world_size=count)
            rows = body(rank)
            if rank == 0:
                file.write_text(json.dumps(rows))
            dist.barrier()
            dist.destroy_process_group()
        codes = fork_ranks(count, run, timeout=280)
        check(not any(codes), "ranks ended with", codes)
        return json.loads(file.read_text())


@contextlib.contextmanager
def form_in_python():
    """Groups made meanwhile are not of the compiled form."""
    found = _compiled.load()
    _compiled._loaded[:] = [None]
    yield
    _compiled._loaded[:] = [found]


def groups_of(*others):
    """A group of all ranks by each backend: ours in both forms, and others."""
    with form_in_python():
        groups = {"python": dist.new_group(backend="distwrap")}
    if _compiled.load() is not None:
        groups["compiled"] = dist.new_group(backend="distwrap")
    return groups | {name: dist.new_group(backend=name) for name in others}


# ---- measuring ----

def times_of(calls, count):
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


def row(what, times, goal, beside="gloo", **goals):
    """A row with one ratio. goal: of ours to gloo's, or above what stands
    beside in microseconds; goals: other goals of a form."""
    return {"what": what, "us": times, "beside": beside,
            "goals": {name: goals.get(name, goal) for name in times
                      if name in ("python", "compiled")}}


def figure(one, form):
    """The number that is held against the goal: a ratio, or microseconds."""
    ours, theirs = one["us"][form], one["us"][one["beside"]]
    return ours - theirs if one["beside"] == "fake" else ours / theirs


def table(rows):
    for one in rows:
        theirs = one["us"][one["beside"]]
        for form, goal in one["goals"].items():
            got = figure(one, form)
            print(f"{one['what']:38} {form:9} {one['us'][form]:10.2f} "
                  f"{one['beside']:5} {theirs:10.2f} us {got:8.3f}  "
                  f"goal {goal:.3f} {'' if got <= goal else 'missed'}")


# ---- the parts ----

def one_rank(rank):
    """PyTorch hooks its flight recorder to every group but those of gloo and
    `fake`, so there is a row without it."""
    rows, x = [], torch.ones(2)
    for what, records in (("", None), (", no flight recorder", "0")):
        if records is not None:
            os.environ["TORCH_FR_BUFFER_SIZE"] = records
        rows.append(row("all_reduce, 8 B, 1 rank" + what, times_of(
            {name: lambda g=group: dist.all_reduce(x, group=g)
             for name, group in groups_of("fake").items()}, 3000),
            10, "fake", compiled=2))
    return rows


def two_ranks(rank):
    groups, rows = groups_of("gloo"), []
    for size, count in ((8, 500), (512, 500), (4 * KIB, 300), (64 * KIB, 100),
                        (MIB, 20), (4 * MIB, 8), (16 * MIB, 3)):
        x = torch.ones(size // 4)
        goals = ({"goal": 1 / 8, "compiled": 1 / 20} if size <= 4 * KIB else
                 {"goal": 1 / 3 if size >= MIB else 1})
        rows.append(row(f"all_reduce, {size} B", times_of(
            {name: lambda g=group: dist.all_reduce(x, group=g)
             for name, group in groups.items()}, count), **goals))
    x = torch.ones(2)
    rows.append(row("all_reduce begun, waited for, 8 B", times_of(
        {name: lambda g=group: dist.all_reduce(x, group=g, async_op=True).wait()
         for name, group in groups.items()}, 300), 1))
    rows.append(row("functional all_reduce, wait_tensor, 8 B", times_of(
        {name: lambda g=group: funcol.wait_tensor(
            funcol.all_reduce(x, "sum", g)) for name, group in groups.items()},
        200), 1 / 2))
    return rows + trainers(groups) + new_groups()


def stepper(model, call):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step():
        call(model).backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


def trainers(groups):
    """Steps; what communication adds is a step less one of a group of this rank
    alone, which does the rest of the work."""
    rows, alone = [], dist.new_group([dist.get_rank()],
                                     use_local_synchronization=True)
    tokens, targets = text(dist.get_rank(), 0)
    ddp = torch.nn.parallel.DistributedDataParallel

    def loss(model):
        return loss_of(model(tokens), targets)

    def sharded(group):
        model = Llama()
        mesh = device_mesh.DeviceMesh.from_group(group, "cpu")
        for block in model.blocks.values():
            fsdp.fully_shard(block, mesh=mesh)
        fsdp.fully_shard(model, mesh=mesh)
        return model

    for what, make in (
            ("DDP", lambda group: ddp(Gpt(), process_group=group)),
            ("FSDP2", sharded)):
        steps = {name: stepper(make(group), loss) for name, group in
                 (groups | {"alone": alone}).items()}
        times = times_of(steps, 10)
        base = times.pop("alone")
        del steps["alone"]
        rows.append(row(f"{what} step", times, 1) | {"alone": base})
        rows.append(row(f"{what}: what communication adds", {
            name: one - base for name, one in times.items()}, 1 / 3))
        rows.append(row(f"{what}: in collectives, by a profile", {
            name: statistics.median(in_collectives(step, name) for _ in range(5))
            for name, step in steps.items()}, 1 / 3))

    some = torch.randint(0, 40000, (64,))
    rows.append(row("step of embeddings, 20 MiB", times_of(
        {name: stepper(ddp(torch.nn.Embedding(40000, 128), process_group=group),
                       lambda model: model(some).sum())
         for name, group in groups.items()}, 3), 0.7))
    return rows


def recorded_since(begin):
    """The operations of this rank that the recorder has from then on."""
    file = pathlib.Path(os.environ["DISTWRAP_RECORDER_DIR"],
                        f"rank-{dist.get_rank()}.json")
    file.unlink(missing_ok=True)
    os.kill(os.getpid(), signal.SIGUSR1)
    while not file.exists():
        time.sleep(0.01)
    return [one for one in json.loads(file.read_text())["operations"]
            if one["submitted_ns"] >= begin]


def in_collectives(step, name, count=20):
    """The time that a step spends in collectives, in microseconds: of gloo by
    PyTorch's profiler, of ours from start to end by the recorder."""
    step()
    dist.barrier()
    begin = time.time_ns()
    with (torch.profiler.profile() if name == "gloo" else
          contextlib.nullcontext()) as profile:
        for _ in range(count):
            step()
    if name == "gloo":
        return sum(one.cpu_time_total for one in profile.key_averages()
                   if one.key.startswith("gloo:")) / count
    return sum(one.get("ended_ns", 0) - one.get("started_ns", 0)
               for one in recorded_since(begin)) / 1e3 / count


def new_groups():
    def making(backend):
        def make():
            group = dist.new_group(backend=backend)
            dist.barrier()  # gloo connects late, and an end would break it
            dist.destroy_process_group(group)
        return make
    with form_in_python():
        return [row("new_group and its end", times_of(
            {"python": making("distwrap"), "gloo": making("gloo")}, 5), 1 / 4)]


def a_mesh(rank):
    times = []
    for _ in range(ROUNDS):
        dist.barrier()
        begin = time.perf_counter()
        mesh = device_mesh.init_device_mesh("cpu", (2, 2),
                                            mesh_dim_names=("a", "b"))
        times.append((time.perf_counter() - begin) * 1e6)
        dist.barrier()
        for name in ("a", "b"):
            dist.destroy_process_group(mesh[name].get_group())
    return statistics.median(times[1:])


def meshes():
    times = {"distwrap": [], "gloo": []}
    for _ in range(5):
        for name, one in times.items():
            one.append(job(4, a_mesh, name))
    return [row("2 x 2 mesh, 4 ranks", {
        "python": statistics.median(times["distwrap"]),
        "gloo": statistics.median(times["gloo"])}, 1 / 4)]


def imports():
    """The import alone is timed: that of PyTorch before it varies by more."""
    program = ("import time, torch, torch.distributed\n"
               "begin = time.perf_counter()\n"
               "import distwrap.torch\n"
               "print((time.perf_counter() - begin) * 1e6)\n")
    with tempfile.TemporaryDirectory() as compiled:
        # Modules are compiled once, as pip does when it installs a wheel.
        settings = dict(os.environ, PYTHONPYCACHEPREFIX=compiled)
        settings.pop("PYTHONDONTWRITEBYTECODE", None)
        times = [float(subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True,
            text=True, env=settings).stdout) for _ in range(ROUNDS + 1)]
    return [row("import above import torch", {
        "python": statistics.median(times[1:]), "fake": 0.0}, 30000, "fake")]


PARTS = {"1": lambda: job(1, one_rank, "distwrap"),
         "2": lambda: job(2, two_ranks, "distwrap"),
         "4": meshes, "import": imports}


def main(arguments):
    file = None
    if arguments[:1] == ["--json"]:
        file, arguments = arguments[1], arguments[2:]
    torch.set_num_threads(1)
    recordings = tempfile.TemporaryDirectory()
    os.environ["DISTWRAP_RECORDER_DIR"] = recordings.name
    _compiled.load()  # once, not in each rank
    print(f"PyTorch {torch.__version__}", flush=True)
    rows = []
    for part in arguments or PARTS:
        made = PARTS[part]()
        table(made)
        sys.stdout.flush()
        rows += made
    if file is not None:
        pathlib.Path(file).write_text(json.dumps(
            {"torch": torch.__version__, "rounds": ROUNDS, "rows": rows},
            indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
