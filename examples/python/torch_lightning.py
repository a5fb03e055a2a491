# A small GPT under Lightning:
#
#   torchrun --nproc-per-node 2 torch_lightning.py --backend distwrap
import argparse
import logging
import warnings

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, Dataset

from torch_models import Gpt, loss_of, text

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="distwrap")
parser.add_argument("--how", default="ddp", choices=("ddp",))
parser.add_argument("--steps", type=int, default=20)
arguments = parser.parse_args()
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")

if arguments.backend == "distwrap":
    import distwrap.torch  # noqa: F401  registers the name


class Steps(Dataset):
    """One batch for each step, of this rank's text."""

    def __len__(self):
        return arguments.steps

    def __getitem__(self, step):
        return text(dist.get_rank(), step)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Gpt()

    def training_step(self, batch, step):
        tokens, targets = batch
        loss = loss_of(self.model(tokens), targets)
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"{step} {total.item() / dist.get_world_size():.9f} "
                  f"{total.item().hex()}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


torch.manual_seed(1)
torch.set_num_threads(1)
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, max_epochs=1, logger=False,
    strategy=DDPStrategy(process_group_backend=arguments.backend),
    enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, use_distributed_sampler=False)
trainer.fit(Module(), DataLoader(Steps(), batch_size=None))
dist.destroy_process_group()
