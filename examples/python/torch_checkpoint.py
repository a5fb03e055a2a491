# A distributed checkpoint: some ranks save a sharded model, others load it.
#
#   torchrun --nproc-per-node 4 torch_checkpoint.py --do save --folder /tmp/c
#   torchrun --nproc-per-node 3 torch_checkpoint.py --do load --folder /tmp/c
import argparse

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import (
    get_state_dict, set_state_dict)
from torch.distributed.fsdp import fully_shard

from torch_models import Llama, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--do", default="save",
                    choices=("save", "save_async", "load"))
parser.add_argument("--folder", required=True)
arguments = parser.parse_args()

if "distwrap" in arguments.backend:
    import distwrap.torch  # noqa: F401  registers the name

torch.manual_seed(1 if arguments.do != "load" else 2)
torch.set_num_threads(1)
dist.init_process_group(arguments.backend)
model = Llama()
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(number):
    """One step on the same text for every rank."""
    tokens, targets = text(0, number)
    loss = loss_of(model(tokens), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


step(0)
if arguments.do == "load":
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    checkpoint.load(state, checkpoint_id=arguments.folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
else:
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    if arguments.do == "save":
        checkpoint.save(state, checkpoint_id=arguments.folder)
    else:
        checkpoint.async_save(state, checkpoint_id=arguments.folder).result()
losses = [step(number) for number in (1, 2, 3)]
if dist.get_rank() == 0:
    print(" ".join(f"{loss:.5f}" for loss in losses), flush=True)
dist.destroy_process_group()
