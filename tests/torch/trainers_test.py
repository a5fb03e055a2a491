"""The trainers of examples/python over distwrap and over gloo: the losses of 100
steps with two ranks are equal to the bit.

  trainers_test.py [--steps N] [--every K] [NAME...]   NAME: such as ddp_plain

With --every only each K-th trainer is run, unless TEST_TORCH_ALL is set.
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import runpy
import shutil
import socket
import sys
import tempfile

import torch
import torch._dynamo  # noqa: F401  once, not in each rank
import torch.distributed.checkpoint  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.pipelining  # noqa: F401
import torch.distributed.tensor.parallel  # noqa: F401

import torch.distributed as dist

import distwrap.torch  # noqa: F401
from support import check, equal, fork_ranks, ranks_of_job

ALL = "TEST_TORCH_ALL" in os.environ
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples/python"
TRAINERS = {
    f"{kind}_{how}": (f"torch_{kind}.py", "--how", how)
    for kind, hows in {
        "ddp": ("plain", "no_sync", "static_graph", "unused", "fp16"),
        "fsdp": ("f32", "bf16", "clip", "accumulate", "compile", "step"),
        "parallel": ("tensor", "sequence"),
        "pipeline": ("1f1b", "interleaved"),
        "accelerate": ("installed", "made_before"), "lightning": ("ddp",),
    }.items() for how in hows
    # accelerate stands for gloo, which 2.13 does not give away.
    if kind not in ("accelerate", "lightning") or (
        importlib.util.find_spec(kind) and distwrap.torch.IS_BACKEND)}

COMPILED = ("fsdp_compile", "fsdp_step")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def output_of(count, script, *arguments):
    """The output of rank 0 of a trainer."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        def body(rank):
            os.environ.update(
                RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank),
                LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port), TORCHELASTIC_RUN_ID="test")
            sys.path.insert(0, str(EXAMPLES))
            sys.argv = [script, *arguments]
            with contextlib.redirect_stdout(io.StringIO()) as told:
                runpy.run_path(str(EXAMPLES / script), run_name="__main__")
            pathlib.Path(folder, str(rank)).write_text(told.getvalue())
        codes = fork_ranks(count, body, timeout=200)
        check(not any(codes), script, arguments, "ended with", codes)
        return pathlib.Path(folder, "0").read_text()


def test_losses(names, steps):
    for name in names:
        script, *arguments = TRAINERS[name]
        # Inductor takes a minute, and a C++ compiler.
        if name in COMPILED and not (ALL and shutil.which("g++")):
            arguments += ["--compiler", "aot_eager"]
        losses = [output_of(2, script, *arguments, "--backend", backend,
                            "--steps", str(steps)).splitlines()
                  for backend in ("gloo", "distwrap")]
        equal(len(losses[0]), steps)
        equal(losses[1], losses[0], name)
        first, last = (float(losses[1][i].split()[1]) for i in (0, -1))
        check(last < first, name, "did not learn:", first, last)
        print(f"{name}: {first:.4f} to {last:.4f} in {steps} steps", flush=True)


def losses_of_one_process(count, steps):
    """The losses of torch_ddp.py with so many ranks, by one process that adds
    the ranks' gradients in order of rank."""
    sys.path.insert(0, str(EXAMPLES))
    from torch_models import Gpt, loss_of, text
    torch.manual_seed(1)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lines = []
    for step in range(steps):
        losses, sums = [], None
        for rank in range(count):
            tokens, targets = text(rank, step)
            loss = loss_of(model(tokens), targets)
            # As DDP does, the terms are divided and not the sum.
            terms = [gradient / count for gradient in
                     torch.autograd.grad(loss, list(model.parameters()))]
            sums = terms if sums is None else [
                a + b for a, b in zip(sums, terms)]
            losses.append(loss.detach())
        for parameter, gradient in zip(model.parameters(), sums):
            parameter.grad = gradient
        optimizer.step()
        total = losses[0].clone()
        for loss in losses[1:]:
            total += loss
        lines.append(f"{step} {total.item() / count:.9f} {total.item().hex()}")
    return lines


def test_losses_of_four_ranks(steps):
    """Gloo adds in another order than by rank, so one process is the measure."""
    given = ("torch_ddp.py", "--how", "plain", "--steps", str(steps))
    ours = output_of(4, *given, "--backend", "distwrap").splitlines()
    equal(ours, losses_of_one_process(4, steps))
    print(f"four ranks: {ours[-1].split()[1]} after {steps} steps", flush=True)


def test_sums_of_four_ranks():
    """Two sums of n floats differ by at most twice the bound of one: (n - 1)
    roundings of half a unit each, relative to the sum of absolute values."""
    def body(rank):
        generator = torch.Generator().manual_seed(rank)
        ours = torch.randn(100000, generator=generator)
        theirs, sizes = ours.clone(), ours.abs().double()
        dist.all_reduce(ours)
        gloo = dist.new_group(backend="gloo")
        dist.all_reduce(theirs, group=gloo)
        dist.all_reduce(sizes, group=gloo)
        bound = 2 * 3 * torch.finfo(torch.float32).eps / 2 * sizes
        check((ours.double() - theirs.double()).abs().le(bound).all())
    codes = ranks_of_job(4, body)
    check(not any(codes), codes)


def test_a_mesh_of_four():
    """Two terms in each sum: equal to the bit on a mesh of 2 x 2 as well."""
    for script, how in (("torch_parallel.py", "tensor"),
                        ("torch_parallel.py", "sequence"),
                        ("torch_fsdp.py", "hybrid")):
        given = (script, "--how", how, "--steps", "10", "--backend")
        ours, theirs = (output_of(4, *given, backend).splitlines()
                        for backend in ("distwrap", "gloo"))
        equal(len(ours), 10)
        # The sum of four losses is printed, and gloo adds it in another order;
        # each of three roundings is of half a unit of the sum.
        for a, b in zip(ours, theirs, strict=True):
            a, b = (float.fromhex(line.split()[2]) for line in (a, b))
            check(abs(a - b) <= 2 * 3 * torch.finfo(torch.float32).eps / 2 *
                  max(a, b), script, how, ours, theirs)


def test_checkpoints():
    for do in ("save", "save_async"):
        with tempfile.TemporaryDirectory() as folder:
            saved = output_of(4, "torch_checkpoint.py", "--do", do, "--folder",
                              folder)
            for count in (2, 3):
                loaded = output_of(count, "torch_checkpoint.py", "--do", "load",
                                   "--folder", folder)
                equal(loaded, saved, do, count)


if __name__ == "__main__":
    names, steps, every = sys.argv[1:], 100, 1
    while names and names[0] in ("--steps", "--every"):
        if names[0] == "--steps":
            steps = int(names[1])
        elif not ALL:
            every = int(names[1])
        del names[:2]
    torch.set_num_threads(1)
    test_losses(names or list(TRAINERS)[::every], steps)
    if not names:
        test_losses_of_four_ranks(steps)
        test_sums_of_four_ranks()
        test_a_mesh_of_four()
        test_checkpoints()
    print("passed")
