# A small GPT under accelerate, which on the CPU knows no backend but gloo:
#
#   torchrun --nproc-per-node 2 torch_accelerate.py --how installed
#   torchrun --nproc-per-node 2 torch_accelerate.py --how made_before
import argparse

import torch
import torch.distributed as dist
from accelerate import Accelerator

from torch_models import Gpt, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--how", default="installed",
                    choices=("installed", "made_before"))
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()

if arguments.backend == "distwrap" and arguments.how == "installed":
    import distwrap
    distwrap.install()  # the name gloo stands for distwrap from here on
elif arguments.backend == "distwrap":
    import distwrap.torch  # noqa: F401  registers the name
if arguments.how == "made_before":
    dist.init_process_group(arguments.backend)

torch.manual_seed(1)
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
model = Gpt()
model, optimizer = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=1e-3))
rank = accelerator.process_index
for step in range(arguments.steps):
    tokens, targets = text(rank, step)
    loss = loss_of(model(tokens), targets)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    total = accelerator.reduce(loss.detach().clone(), "sum")
    if accelerator.is_main_process:
        print(f"{step} {total.item() / accelerator.num_processes:.9f} "
              f"{total.item().hex()}", flush=True)
accelerator.end_training()
if dist.is_initialized():
    dist.destroy_process_group()
