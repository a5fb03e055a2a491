"""The Python door on PyTorch itself, in processes of their own."""

import subprocess
import sys

CLOSED = """
import torch
import torch.distributed as td
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

import distwrap as dist
from distwrap import guard

before = {name: getattr(td, name, None) for name in guard.NAMES}
session = dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                              guard="block")
there = [name for name in guard.NAMES if before[name] is not None]
assert guard.guard_status()["names"] == sorted(there)
for name in there:
    try:
        getattr(td, name)()
    except NotImplementedError as error:
        assert "APIs have been disabled" in str(error), error
        assert "distwrap." in str(error), error
    else:
        raise AssertionError(name)
# Callers inside of PyTorch pass, and so do scopes.
td.init_process_group("gloo", store=td.HashStore(), rank=0, world_size=1)
with dist.guard_allow("a test"):
    td.all_reduce(torch.ones(3))
functional.wait_tensor(functional.all_reduce(torch.ones(3), "sum",
                                             td.group.WORLD))
model = DistributedDataParallel(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
session.close()
td.barrier()
assert all(getattr(td, name) is before[name] for name in there)
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
"""

for program in (CLOSED, AT_IMPORT):
    done = subprocess.run([sys.executable, "-B", "-c", program], timeout=120,
                          check=False)
    if done.returncode != 0:
        sys.exit(1)
print("all is well")
