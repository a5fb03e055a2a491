# A small GPT under DistributedDataParallel, over any backend:
#
#   torchrun --nproc-per-node 2 torch_ddp.py --backend distwrap --how plain
import argparse
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP

from torch_models import Gpt, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--how", default="plain", choices=(
    "plain", "no_sync", "static_graph", "unused", "fp16"))
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()
how = arguments.how

if "distwrap" in arguments.backend:
    import distwrap.torch  # noqa: F401  registers the name

torch.manual_seed(1)
torch.set_num_threads(1)
dist.init_process_group(arguments.backend)
rank = dist.get_rank()
model = DDP(Gpt(spare=how == "unused"), static_graph=how == "static_graph",
            find_unused_parameters=how == "unused",
            bucket_cap_mb=0.1)  # so that there are several
if how == "fp16":
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(arguments.steps):
    tokens, targets = text(rank, step)
    # With no_sync every second gradient stays here and is added to the next.
    local = how == "no_sync" and step % 2 == 0
    with model.no_sync() if local else contextlib.nullcontext():
        options = {"use_spare": step % 3 == 0} if how == "unused" else {}
        loss = loss_of(model(tokens, **options), targets)
        loss.backward()
    if not local:
        optimizer.step()
        optimizer.zero_grad()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"{step} {total.item() / dist.get_world_size():.9f} "
              f"{total.item().hex()}", flush=True)
dist.destroy_process_group()
