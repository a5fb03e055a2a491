# Tensor and sequence parallelism of a tiny llama by DTensor, on a mesh of data
# and tensor ranks:
#
#   torchrun --nproc-per-node 4 torch_parallel.py --backend distwrap --tensor 2
import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
    parallelize_module)

from torch_models import Llama, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--how", default="tensor", choices=("tensor", "sequence"))
parser.add_argument("--tensor", type=int, default=2, help="ranks of a model")
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()

if "distwrap" in arguments.backend:
    import distwrap.torch  # noqa: F401  registers the name

torch.manual_seed(1)
torch.set_num_threads(1)
dist.init_process_group(arguments.backend)
copies = dist.get_world_size() // arguments.tensor
mesh = init_device_mesh("cpu", (copies, arguments.tensor),
                        mesh_dim_names=("data", "tensor"))

model = Llama()
by_weight = {
    "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(),
    "attention.wv": ColwiseParallel(), "attention.wo": RowwiseParallel(),
    "feed_forward.w1": ColwiseParallel(), "feed_forward.w3": ColwiseParallel(),
    "feed_forward.w2": RowwiseParallel()}
of_model = {
    "tokens": RowwiseParallel(input_layouts=Replicate(),
                              output_layouts=Replicate()),
    "head": ColwiseParallel(output_layouts=Replicate())}
if arguments.how == "sequence":
    # Between the layers the ranks hold parts of each sequence.
    whole = dict(desired_input_layouts=(Replicate(),),
                 input_layouts=(Shard(1),))
    by_weight |= {
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
        "attention": PrepareModuleInput(**whole),
        "feed_forward": PrepareModuleInput(**whole),
        "norm1": SequenceParallel(), "norm2": SequenceParallel()}
    of_model = {
        "tokens": RowwiseParallel(input_layouts=Replicate(),
                                  output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1),
                                output_layouts=Replicate())}
for block in model.blocks.values():
    parallelize_module(block, mesh["tensor"], by_weight)
parallelize_module(model, mesh["tensor"], of_model)
if copies > 1:
    fully_shard(model, mesh=mesh["data"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

data = mesh.get_local_rank("data")
for step in range(arguments.steps):
    tokens, targets = text(data, step)
    loss = loss_of(model(tokens), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"{step} {total.item() / dist.get_world_size():.9f} "
              f"{total.item().hex()}", flush=True)
dist.destroy_process_group()
