# A call past distwrap is refused while a session guards the process, and passes
# in a scope: docs/guard.md. With PyTorch.
import torch
import torch.distributed

import distwrap as dist

dist.init_process_group(rank=0, world_size=1, guard="block")
try:
    torch.distributed.all_reduce(torch.ones(1))  # a forgotten call
except NotImplementedError as error:
    print(error)
with dist.guard_allow("a part that has not moved yet"):
    torch.distributed.all_reduce(torch.ones(1))
    print(dist.guard_status()["scopes"])
print(dist.guard_status()["refused"])
dist.destroy_process_group()
