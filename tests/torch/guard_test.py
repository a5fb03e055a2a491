"""The doors on PyTorch itself, in processes of their own.

GUARD_DOOR is the C door, GUARD_CALLER a module over NCCL.
"""

import os
import pathlib
import socket
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples/python"
DOOR = os.environ.get("GUARD_DOOR", "")

COMMON = """
import inspect, re, sys
import torch
import torch.distributed as td
import torch.distributed.distributed_c10d as c10d
import distwrap as dist
from distwrap import guard

def session(mode):
    return dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                               guard=mode)

def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except NotImplementedError as error:
        assert "APIs have been disabled" in str(error), error
        assert "distwrap." in str(error), error
        assert error.reason == "kDirectCall", error
    else:
        raise AssertionError(call)
"""

# The list of names that the door lacks is what may communicate by its name and
# is not guarded. Each needs a reason here.
LACKS = """
HARMLESS = {
    "_is_barrier_after_init": "a setting",
    "_store_based_barrier": "counts in the store, at a start",
    "_coalescing_manager": "collects calls, which are guarded themselves",
    "_supports_window": "a query", "_new_window": "makes an object",
    "_get_reconfigure_handle": "a query",
    "_window": "", "reduce_op": "names of reductions",
}
SENDS = re.compile("send|recv|reduce|gather|scatter|to_all|barrier|broadcast|"
                   "coalesc|window")
lacks = sorted({name for module in (td, c10d) for name in vars(module)
                if SENDS.search(name)
                and inspect.isfunction(getattr(module, name))
                and name not in guard.NAMES} - set(HARMLESS))
assert lacks == [], f"the door of {torch.__version__} lacks {lacks}"
print(f"{torch.__version__} has", sum(hasattr(c10d, name)
      for name in guard.NAMES), "of", len(guard.NAMES), "names")
"""

CLOSED = """
import importlib
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel
from torch.distributed import all_reduce as taken_before

before = {name: getattr(td, name, None) for name in guard.NAMES}
there = [name for name in guard.NAMES if before[name] is not None]
def whole():
    return all(getattr(module, name) is before[name] for name in there
               for module in (td, c10d) if hasattr(module, name))

td.init_process_group("gloo", store=td.HashStore(), rank=0, world_size=1)
first, second = session("block"), session("warn")
assert guard.guard_status()["names"] == sorted(there)
for name in there:
    refused(getattr(td, name))
    refused(getattr(c10d, name))
# Every way to come to a name while the door is closed.
from torch.distributed import all_reduce as taken_after
from torch.distributed.distributed_c10d import all_reduce as from_inside
for call in (taken_after, from_inside, torch.distributed.all_reduce,
             importlib.import_module("torch.distributed").all_reduce,
             sys.modules["torch.distributed"].all_reduce,
             getattr(torch, "distributed").all_reduce):
    refused(call, torch.ones(3))
taken_before(torch.ones(3))  # not caught
# Callers inside of PyTorch pass, and so do scopes.
with dist.guard_allow("a test"):
    td.all_reduce(torch.ones(3))
functional.wait_tensor(functional.all_reduce(torch.ones(3), "sum",
                                             td.group.WORLD))
model = DistributedDataParallel(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
# Overlapping sessions, one that fails, and one that ends twice.
try:
    dist.create_session("nobody", store=dist.HashStore(), rank=0, world_size=1,
                        guard="block")
except dist.DistError:
    pass
refused(td.barrier)
first.close()
td.barrier()  # told of
assert not whole()
second.close()
second.close()
assert whole()
taken_after(torch.ones(3))  # taken while closed, called afterwards
td.barrier()
td.destroy_process_group()
"""

AT_IMPORT = """
import distwrap as dist
session = dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                              guard="block")
import torch.distributed as td
try:
    td.all_reduce(None)
except NotImplementedError:
    pass
else:
    raise AssertionError("the door was open")
session.close()
td.init_process_group("gloo", store=td.HashStore(), rank=0, world_size=1)
td.barrier()
td.destroy_process_group()
"""

TASKS = """
import asyncio
td.init_process_group("gloo", store=td.HashStore(), rank=0, world_size=1)
one = session("block")

async def allowed(ready, done):
    with dist.guard_allow("a task"):
        ready.set()
        await done.wait()
        td.barrier()

async def tasks():
    ready, done = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(allowed(ready, done))
    await ready.wait()
    refused(td.barrier)
    done.set()
    await task
    refused(td.barrier)

asyncio.run(tasks())
one.close()
td.destroy_process_group()
"""

# The backend's own session closes the C door alone.
BACKEND = """
import distwrap.torch
before = td.all_reduce
td.init_process_group("distwrap", store=td.HashStore(), rank=0, world_size=1)
assert guard.guard_status()["mode"] == "block", guard.guard_status()["mode"]
assert td.all_reduce is before
td.all_reduce(torch.ones(3))
other = session("off")
td.all_reduce(torch.ones(3))
other.close()
assert td.all_reduce is before
td.destroy_process_group()
"""

# P2POps name isend and irecv as objects, which PyTorch compares by identity.
BATCHES = """
import os
sys.path.insert(0, {here!r})
from support import fork_ranks

def body(rank):
    td.init_process_group("gloo", init_method="file://" + {file!r}, rank=rank,
                          world_size=2)
    isend, irecv, batch = td.isend, td.irecv, td.batch_isend_irecv
    other = 1 - rank

    def pair(send, receive):
        got = torch.zeros(2)
        return [td.P2POp(send, torch.full((2,), 1. + rank), other),
                td.P2POp(receive, got, other)], got

    def exchange(call, ops, got):
        got.zero_()
        for work in call(ops):
            work.wait()
        assert got.tolist() == [1. + other] * 2, got

    early = pair(isend, irecv)
    exchange(batch, *early)
    one = session("block")
    assert td.isend is not isend
    of_old, of_new = pair(isend, irecv), pair(td.isend, td.irecv)
    for ops, _ in (early, of_old, of_new):
        refused(td.batch_isend_irecv, ops)
    with dist.guard_allow("a test"):
        for made in (early, of_old, of_new):
            exchange(td.batch_isend_irecv, *made)
    exchange(batch, *of_new)  # not caught: taken before
    try:
        td.P2POp(td.all_reduce, torch.ones(2), other)
    except ValueError:
        pass
    else:
        raise AssertionError("a P2POp of all_reduce")
    one.close()
    assert td.isend is isend and td.batch_isend_irecv is batch
    for made in (early, of_old, of_new):
        assert made[0][0].op is isend and made[0][1].op is irecv
        exchange(td.batch_isend_irecv, *made)
    td.destroy_process_group()

codes = fork_ranks(2, body)
assert not any(codes), codes
"""

# A compiled step is what it was, and a compiled direct call is refused.
COMPILED = """
from torch.nn.parallel import DistributedDataParallel
td.init_process_group("gloo", store=td.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)
plain = torch.nn.Linear(3, 3)
step = torch.compile(DistributedDataParallel(plain), backend="aot_eager")
direct = torch.compile(lambda x: td.all_reduce(x * 2), backend="aot_eager")

def gradient():
    plain.zero_grad()
    step(torch.ones(2, 3)).square().sum().backward()
    return plain.weight.grad.clone()

expected = gradient()
direct(torch.ones(3))
one = session(MODE)
assert gradient().equal(expected)
refused(direct, torch.ones(3))
refused(direct, torch.ones(3))
fresh = torch.compile(lambda x: (x * 3).sum(), backend="aot_eager")
assert fresh(torch.ones(3)).item() == 9
one.close()
assert gradient().equal(expected)
direct(torch.ones(3))
td.destroy_process_group()
"""

# PyTorch has a Gloo of its own. The door sees its calls, and lets them pass: the
# library that has the function calls it. A module over the NCCL that PyTorch has
# loaded is refused; without communicators nothing more can be asked of that.
OWN_GLOO = """
import ctypes, os
import torch.distributed._functional_collectives as functional
caller = ctypes.CDLL(os.environ["GUARD_CALLER"])
td.init_process_group("gloo", store=td.HashStore(), rank=0, world_size=1)
one = session("require")
refused(td.all_reduce, torch.ones(3))
functional.wait_tensor(functional.all_reduce(torch.ones(3), "sum",
                                             td.group.WORLD))
td.group.WORLD.allreduce([torch.ones(3)]).wait()  # a method: not caught
assert not any(name.startswith("gloo::")
               for name in guard.guard_status()["refused"])
assert caller.call_nccl() == 5
assert guard.guard_status()["refused"]["ncclSend"] == 1
one.close()
td.destroy_process_group()
"""

# An example as a rank of two, with both doors closed by a session beside it. It
# reports its loss by a call of its own, for which it is named.
EXAMPLE = """
import ctypes, os, runpy
one = session("require")
dist.guard_exempt("__main__")
program = {{"__name__": "program", "td": td, "torch": torch}}
exec("def direct(): td.all_reduce(torch.ones(1))", program)
refused(program["direct"])
assert ctypes.CDLL(os.environ["GUARD_CALLER"]).call_nccl() == 5
sys.path.insert(0, {folder!r})
sys.argv = {argv!r}
runpy.run_path(os.path.join({folder!r}, {argv!r}[0]), run_name="__main__")
refused(program["direct"])
assert guard.guard_status()["names"]
one.close()
"""
PLAIN = """
import os, runpy
sys.path.insert(0, {folder!r})
sys.argv = {argv!r}
runpy.run_path(os.path.join({folder!r}, {argv!r}[0]), run_name="__main__")
"""


def run(program, **environment):
    done = subprocess.run(
        [sys.executable, "-B", "-W", "ignore", "-c", program],
        env=os.environ | environment, timeout=200, check=False)
    if done.returncode != 0:
        sys.exit(f"ended with {done.returncode}:\n{program}")


def output_of_two(program, **environment):
    """The output of rank 0 of a program of two ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [subprocess.Popen(
        [sys.executable, "-B", "-W", "ignore", "-c", program],
        stdout=subprocess.PIPE, text=True,
        env=os.environ | environment | {
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "guard"})
        for rank in range(2)]
    told = [rank.communicate(timeout=200)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{program}\nended with {[r.returncode for r in ranks]}")
    return told[0]


def examples(backends, folder):
    for script, *arguments in (
            ("torch_ddp.py", "--how", "plain", "--steps", "3"),
            ("torch_fsdp.py", "--how", "f32", "--steps", "3"),
            ("torch_pipeline.py", "--how", "1f1b", "--steps", "3"),
            ("torch_checkpoint.py", "--do", "save", "--folder", folder),
            ("torch_checkpoint.py", "--do", "load", "--folder", folder)):
        for backend in backends:
            argv = [script, *arguments, "--backend", backend]
            values = {"folder": str(EXAMPLES), "argv": argv}
            plain = output_of_two(COMMON + PLAIN.format(**values))
            guarded = output_of_two(COMMON + EXAMPLE.format(**values),
                                    LD_PRELOAD=DOOR)
            if plain != guarded:
                sys.exit(f"{argv} differs:\n{plain}\n{guarded}")
            print(f"{' '.join(argv[:3])} over {backend}: as without the doors", flush=True)


def main():
    import tempfile

    for program in (LACKS, CLOSED, TASKS):
        run(COMMON + program)
    run(AT_IMPORT)
    run(COMMON + BACKEND, DISTWRAP_GUARD="block")
    with tempfile.TemporaryDirectory() as folder:
        run(COMMON + BATCHES.format(here=os.path.dirname(__file__),
                                    file=folder + "/store"))
    if not DOOR:
        run(COMMON + "MODE = 'block'" + COMPILED)
        print("skipped the C door: GUARD_DOOR is not set")
        return
    run(COMMON + "MODE = 'require'" + COMPILED, LD_PRELOAD=DOOR)
    run(COMMON + OWN_GLOO, LD_PRELOAD=DOOR)
    with tempfile.TemporaryDirectory() as folder:
        examples(["distwrap", "gloo"] if os.environ.get("TEST_TORCH_ALL")
                 else ["distwrap"], folder)
    print("all is well")


main()
