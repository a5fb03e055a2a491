"""The cost of calls from Python, beside the C API and beside PyTorch: in turns in
one run, each rank on a processor of its own where there are enough.

  PYTHONPATH=build/release/python python3 call_cost.py [PART...]

  calls    one rank on loopback, beside the functions of the C API
  torch    one rank, NumPy and torch tensors, beside torch's backend "fake"
  two      two ranks on shm, beside torch's gloo
  starts   init_process_group and new_group of two ranks, beside torch's gloo

Parts that need PyTorch are left out where it is not installed. Prints the best
round of one rank, the median round of two, and the ratio to the first of each
table.
"""

import datetime
import importlib.util
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

PROCESSORS = sorted(os.sched_getaffinity(0))
ROUNDS = int(os.environ.get("ROUNDS", "9"))


def in_turns(calls, count, begin=lambda: None, counts=(),
             choose=statistics.median):
    """{name: microseconds of one call}, chosen from the rounds. Those in
    `counts` make `count` calls themselves and return the nanoseconds."""
    times = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):  # the first one warms up
        for name, call in calls.items():
            begin()
            if call in counts:
                taken = call(count)
                assert taken > 0, "a call of the C API has failed"
                times[name].append(taken / count / 1e3)
                continue
            before = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - before) / count * 1e6)
    return {name: choose(one[1:]) for name, one in times.items()}


def say(title, times):
    first = next(iter(times.values()))
    for name, one in times.items():
        print(f"{title:24} {name:34} {one:10.2f} us {one / first:8.4f}",
              flush=True)


def pin(rank):
    os.sched_setaffinity(0, {PROCESSORS[rank % len(PROCESSORS)]})


# ---- one rank ----

def c_functions():
    """The functions of call_cost.c, made with the library that is loaded."""
    import ctypes

    with open("/proc/self/maps", encoding="utf-8") as maps:
        library = next(line.split()[-1] for line in maps
                       if "/libdistwrap" in line and ".so" in line)
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/cost.so"
        subprocess.run(
            ["cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC",
             f"-I{here.parents[1] / 'include'}", here / "call_cost.c", library,
             "-o", made], check=True)
        loaded = ctypes.CDLL(made)
    functions = loaded.time_calls, loaded.time_started_calls
    for function in functions:
        function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_int64
    return functions


def calls():
    import distwrap as dist

    pin(0)
    dist.init_process_group("loopback", store=dist.HashStore(), rank=0,
                            world_size=1)
    x, told = np.ones(1), {"rank": 0, "text": "x" * 80}
    now, started = c_functions()
    say("all_reduce, 8 B", in_turns({
        "the C function": now,
        "distwrap": lambda: dist.all_reduce(x)}, 20000, counts=[now],
        choose=min))
    say("all_reduce, 8 B, begun", in_turns({
        "the C functions": started,
        "distwrap": lambda: dist.all_reduce(x, async_op=True).wait()}, 10000,
        counts=[started], choose=min))
    say("others", in_turns({
        "barrier": dist.barrier,
        "all_gather_object, 100 B":
            lambda: dist.all_gather_object([None], told)}, 5000,
        choose=min))
    dist.destroy_process_group()


def torch_calls():
    import torch
    import torch.distributed as theirs
    from torch.testing._internal.distributed.fake_pg import FakeStore

    import distwrap as dist

    pin(0)
    torch.set_num_threads(1)
    dist.init_process_group("loopback", store=dist.HashStore(), rank=0,
                            world_size=1)
    theirs.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    x, t = np.ones(1), torch.ones(1, dtype=torch.float64)
    say("all_reduce, 8 B", in_turns({
        "torch's fake backend": lambda: theirs.all_reduce(t),
        "distwrap, NumPy": lambda: dist.all_reduce(x),
        "distwrap, torch tensor": lambda: dist.all_reduce(t)}, 10000,
        choose=min))
    theirs.destroy_process_group()
    dist.destroy_process_group()


# ---- two ranks ----

def forked(body, *arguments):
    """Runs body(rank, folder) in two processes; rank 0 prints."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [multiprocessing.Process(target=body,
                                         args=(rank, folder, *arguments))
                 for rank in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
            if one.exitcode != 0:
                sys.exit(f"a rank has failed: {one.exitcode}")


def ours(rank, folder):
    import distwrap as dist

    be_rank(rank, folder)
    dist.init_process_group("shm")
    return dist


def be_rank(rank, folder, turn=0):
    """As a launcher tells this process; each turn is a job of its own."""
    os.environ.update(
        DISTWRAP_RANK=str(rank), DISTWRAP_WORLD_SIZE="2",
        DISTWRAP_LOCAL_RANK=str(rank), DISTWRAP_LOCAL_WORLD_SIZE="2",
        DISTWRAP_JOB_ID=f"cost-{os.path.basename(folder)}-{turn}")


def gloo(rank, folder, name="gloo"):
    import torch.distributed as theirs

    theirs.init_process_group(
        "gloo", rank=rank, world_size=2,
        store=theirs.FileStore(f"{folder}/{name}", 2),
        timeout=datetime.timedelta(seconds=60))
    return theirs


def two_ranks(rank, folder):
    import torch

    pin(rank)
    torch.set_num_threads(1)
    dist, theirs = ours(rank, folder), gloo(rank, folder)
    told, all_told = {"rank": rank, "text": "x" * 80}, [None] * 2
    for size, count in ((8, 1000), (4096, 300), (1 << 20, 20), (16 << 20, 3)):
        t, x = torch.ones(size // 8, dtype=torch.float64), np.ones(size // 8)
        times = in_turns({
            "torch's gloo": lambda: theirs.all_reduce(t),
            "distwrap, NumPy": lambda: dist.all_reduce(x),
            "distwrap, torch tensor": lambda: dist.all_reduce(t)}, count,
            dist.barrier)
        if rank == 0:
            say(f"all_reduce, {size} B", times)
    times = in_turns({
        "torch's gloo": lambda: theirs.all_gather_object(all_told, told),
        "distwrap": lambda: dist.all_gather_object(all_told, told)}, 200,
        dist.barrier)
    if rank == 0:
        say("all_gather_object, 100 B", times)

    def group_of_theirs():
        group = theirs.new_group()
        theirs.barrier(group)  # gloo connects late
        theirs.destroy_process_group(group)

    def group_of_ours():
        group = dist.new_group()
        dist.barrier(group)
        dist.destroy_process_group(group)
    times = in_turns({"torch's gloo": group_of_theirs,
                      "distwrap": group_of_ours}, 5, dist.barrier)
    if rank == 0:
        say("new_group and its end", times)
    dist.barrier()
    theirs.destroy_process_group()
    dist.destroy_process_group()


def starts(rank, folder):
    """The ranks begin together, by a barrier of a session that stays."""
    import torch  # noqa: F401

    pin(rank)
    dist = ours(rank, folder)
    world, turn = dist.group.WORLD, 0
    dist.bind_session(None)

    def start_theirs():
        nonlocal turn
        turn += 1
        theirs = gloo(rank, folder, turn)
        theirs.barrier()  # an end breaks ranks that connect still
        theirs.destroy_process_group()

    def start_ours():
        nonlocal turn
        turn += 1
        be_rank(rank, folder, turn)
        session = dist.create_session("shm")
        dist.barrier(session.world())
        session.close()
    times = in_turns({"torch's gloo": start_theirs, "distwrap": start_ours}, 1,
                     lambda: dist.barrier(world))
    if rank == 0:
        say("a start and its end", times)


def main(*parts):
    has_torch = importlib.util.find_spec("torch") is not None
    for part in parts or ("calls", "torch", "two", "starts"):
        if part == "calls":
            calls()
        elif not has_torch:
            print(f"{part}: left out, PyTorch is not installed")
        elif part == "torch":
            torch_calls()
        else:
            forked({"two": two_ranks, "starts": starts}[part])


if __name__ == "__main__":
    main(*sys.argv[1:])
