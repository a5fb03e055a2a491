# A tiny llama as a pipeline, each rank a stage, or two with --how interleaved:
#
#   torchrun --nproc-per-node 2 torch_pipeline.py --backend distwrap --how 1f1b
import argparse

import torch
import torch.distributed as dist
from torch.distributed.pipelining import (
    PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B)

from torch_models import Llama, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--how", default="1f1b", choices=("1f1b", "interleaved"))
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()

if "distwrap" in arguments.backend:
    import distwrap.torch  # noqa: F401  registers the name

torch.set_num_threads(1)
dist.init_process_group(arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()
each = 2 if arguments.how == "interleaved" else 1
count = each * size


def stage_of(number):
    torch.manual_seed(number)
    part = Llama([number], number == 0, number == count - 1)
    return PipelineStage(part, number, count, torch.device("cpu"))


stages = [stage_of(rank + i * size) for i in range(each)]
kind = Schedule1F1B if each == 1 else ScheduleInterleaved1F1B
schedule = kind(stages[0] if each == 1 else stages, n_microbatches=4,
                loss_fn=loss_of)
parameters = [one for stage in stages for one in stage.submod.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)

for step in range(arguments.steps):
    tokens, targets = text(0, step)
    losses = []
    given = (tokens,) if rank == 0 else ()
    if rank == size - 1:
        schedule.step(*given, target=targets, losses=losses)
    else:
        schedule.step(*given)
    optimizer.step()
    optimizer.zero_grad()
    total = torch.stack(losses).sum() if losses else torch.zeros(())
    dist.all_reduce(total)
    if rank == 0:
        print(f"{step} {total.item() / 4:.9f} {total.item().hex()}", flush=True)
dist.destroy_process_group()
