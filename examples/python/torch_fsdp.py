# A tiny llama whose parameters are sharded by fully_shard:
#
#   torchrun --nproc-per-node 2 torch_fsdp.py --backend distwrap --how f32
import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from torch_models import Llama, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--how", default="f32", choices=(
    "f32", "bf16", "clip", "accumulate", "hybrid", "compile", "step"))
parser.add_argument("--compiler", default="inductor")
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()
how = arguments.how

if "distwrap" in arguments.backend:
    import distwrap.torch  # noqa: F401  registers the name

torch.manual_seed(1)
torch.set_num_threads(1)
dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()
# Sharded among all ranks, or in each row of a mesh and replicated by column.
shape = (2, size // 2) if how == "hybrid" else (size,)
mesh = init_device_mesh("cpu", shape,
                        mesh_dim_names=("replicate", "shard")[-len(shape):])
options = {"mesh": mesh}
if how == "bf16":
    options["mp_policy"] = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
model = Llama()
for block in model.blocks.values():
    fully_shard(block, **options)
fully_shard(model, **options)
if how == "compile":
    for block in model.blocks.values():
        block.compile(backend=arguments.compiler)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(tokens, targets, updates):
    loss = loss_of(model(tokens), targets)
    loss.backward()
    if updates:
        if how == "clip":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    return loss.detach().clone()


if how == "step":
    train = torch.compile(train, backend=arguments.compiler)
every = 2 if how == "accumulate" else 1
for step in range(arguments.steps):
    updates = step % every == every - 1
    model.set_requires_gradient_sync(updates)
    total = train(*text(rank, step), updates)
    dist.all_reduce(total)
    if rank == 0:
        print(f"{step} {total.item() / size:.9f} {total.item().hex()}",
              flush=True)
dist.destroy_process_group()
