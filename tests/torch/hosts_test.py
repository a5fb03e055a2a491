"""Two network namespaces as hosts, with torchrun on each: PyTorch's world, groups
and trainers between them. Exits with 77 where namespaces are not permitted."""

import os
import pathlib
import secrets
import subprocess
import sys
import tempfile

from support import check, equal

SPACE = f"dwhosts-{os.getpid()}-torch"
PROGRAM = """
import sys
import torch
import torch.distributed as dist
import distwrap.torch
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("distwrap")
rank = dist.get_rank()
x = torch.tensor([rank])
dist.all_reduce(x)
pair = dist.new_group([0, 3])  # on both hosts
y = torch.tensor([rank])
if rank in (0, 3):
    dist.all_reduce(y, group=pair)
near = dist.new_group([2 * (rank // 2), 2 * (rank // 2) + 1],
                      use_local_synchronization=True)
z = torch.tensor([rank])
dist.all_reduce(z, group=near)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.full((1, 2), float(rank))).sum().backward()
grad = model.module.weight.grad[0, 0]
sys.stdout.write(f"{rank}: {x.item()} {y.item()} {z.item()} {grad:g}\\n")
sys.stdout.flush()
dist.destroy_process_group()
"""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def why_not():
    if os.geteuid() != 0:
        return "no network namespaces without root"
    try:
        run("ip", "netns", "add", SPACE + "0")
        run("ip", "netns", "add", SPACE + "1")
        run("ip", "-n", SPACE + "0", "link", "add", "eth0", "type", "veth",
            "peer", "name", "eth0", "netns", SPACE + "1")
        for host in range(2):
            at = ("ip", "-n", f"{SPACE}{host}")
            run(*at, "link", "set", "lo", "up")
            run(*at, "addr", "add", f"10.78.0.{host + 1}/24", "dev", "eth0")
            run(*at, "link", "set", "eth0", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces: {error}"
    return ""


def on_both(folder, key):
    """Exit status and output of torchrun on each host."""
    path = pathlib.Path(folder, "program.py")
    path.write_text(PROGRAM)
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith("DISTWRAP_")} | {"OMP_NUM_THREADS": "1"}
    if key is not None:
        variables["DISTWRAP_JOB_KEY"] = key
    nodes = [subprocess.Popen(
        ["ip", "netns", "exec", f"{SPACE}{host}", "unshare", "--uts", "sh",
         "-c", f'hostname host{host} && exec "$@"', "sh", sys.executable, "-m",
         "torch.distributed.run", "--nnodes", "2", "--node-rank", str(host),
         "--master-addr", "10.78.0.1", "--master-port", "29571",
         "--nproc-per-node", "2", path], env=variables, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE) for host in range(2)]
    told = [node.communicate(timeout=150) for node in nodes]
    return [(node.returncode, *texts) for node, texts in zip(nodes, told)]


def test_a_world_of_two_hosts(folder):
    told = on_both(folder, secrets.token_hex(32))
    equal([one[0] for one in told], [0, 0], told)
    lines = sorted(line for one in told for line in one[1].splitlines())
    equal(lines, ["0: 6 3 1 1.5", "1: 6 1 1 1.5", "2: 6 2 5 1.5",
                  "3: 6 3 5 1.5"])


def test_without_a_key(folder):
    told = on_both(folder, None)
    for status, _, error in told:
        check(status != 0)
    text = "".join(one[2] for one in told)
    check("DISTWRAP_JOB_KEY" in text, text)


if __name__ == "__main__":
    try:
        reason = why_not()
        if reason:
            print("skipped:", reason)
            sys.exit(77)
        for case in (test_a_world_of_two_hosts, test_without_a_key):
            with tempfile.TemporaryDirectory() as place:
                case(place)
        print("2 cases passed")
    finally:
        for number in range(2):
            subprocess.run(["ip", "netns", "del", f"{SPACE}{number}"],
                           check=False, stderr=subprocess.DEVNULL)
