"""Measures the guard beside the same program without the door, in turns.

  speed.py BUILD [--turns N] [--audit LIBRARY]

BUILD: a build folder with the targets guard_speed, distwrap_guard and
distwrap_cli. Prints the table of docs/guard.md: medians over the turns. With
TORCH_PYTHON, an interpreter that has PyTorch, also what the Python door costs.
--audit: a library that is loaded by LD_AUDIT in place of the door.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

parser = argparse.ArgumentParser()
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--turns", type=int, default=7)
parser.add_argument("--audit")
parser.add_argument("--door", help="another file of the door")
given = parser.parse_args()
build = given.build.resolve()
door = given.door or str(build / "lib/distwrap/libdistwrap_guard.so")
speed = str(build / "bin/guard_speed")
caller = str(build / "lib/libnccl-net-speed.so")
DOOR = {"LD_AUDIT": given.audit} if given.audit else {"LD_PRELOAD": door}


def run(command, extra):
    return subprocess.run(command, env=os.environ | extra, check=True,
                          stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL).stdout


def calls(extra):
    """ns of each case."""
    return {name: float(value) for name, value in
            (line.split() for line in run([speed, caller], extra).splitlines())}


def start(extra):
    begin = time.perf_counter()
    for _ in range(20):
        run([speed], extra)
    return (time.perf_counter() - begin) / 20 * 1e3


def small_sum(extra):
    """us of an 8-byte all_reduce of two ranks."""
    file = build / "guard_speed.json"
    run([str(build / "bin/distwrap"), "bench", "all_reduce", "--ranks", "2",
         "--sizes", "8", "--rounds", "7", "--seconds", "0.3", "--json-file",
         str(file)], extra)
    told = json.loads(file.read_text())
    file.unlink()
    return told["rows"][0]["lat_us_p50"]


def differences(measure, closed):
    with_door, without = [], []
    for _ in range(given.turns):
        without.append(measure({}))
        with_door.append(measure(DOOR | closed))
    return with_door, without


PYTHON = """
import time, torch, torch.distributed as td
import distwrap as dist
from distwrap import guard
def session():
    return dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                               guard="block")
session().close()
class Ours:
    def _guard(self): return self.mode
one, best_close, best_open = Ours(), [], []
for _ in range(200):
    one.mode = 2
    begin = time.perf_counter()
    guard.began(one)
    middle = time.perf_counter()
    one.mode = 0
    guard.sync()
    end = time.perf_counter()
    best_close.append(middle - begin)
    best_open.append(end - middle)
def empty(): pass
wrapped = guard._closing("barrier", empty)
inside = {"__name__": "torch.nn", "wrapped": wrapped, "empty": empty,
          "time": time}
exec('''
def loop(call, n):
    begin = time.perf_counter()
    for _ in range(n): call()
    return (time.perf_counter() - begin) / n
''', inside)
one.mode = 2
guard.began(one)
loop = inside["loop"]
costs = [loop(wrapped, 100000) - loop(empty, 100000) for _ in range(7)]
median = lambda values: sorted(values)[len(values) // 2]
print(median(best_close) * 1e6, median(best_open) * 1e6, median(costs) * 1e6)
"""


def main():
    with_door, without = differences(calls, {})
    ours = [[turn["all_reduce"] for turn in turns]
            for turns in (with_door, without)]
    print(f"8-byte all_reduce of one rank: {min(ours[0]):.1f} ns, without "
          f"{min(ours[1]):.1f} ns")
    for name in ("open", "scope", "exempt", "first", "refused"):
        more = [a.get(name, 0) - b.get(name, 0)
                for a, b in zip(with_door, without)]
        print(f"{name}: {statistics.median(more):.2f} ns more "
              f"({min(more):.2f} to {max(more):.2f})")
    with_door, without = differences(start, {})
    print(f"start: {statistics.median(with_door):.2f} ms, without "
          f"{statistics.median(without):.2f} ms")
    with_door, without = differences(small_sum, {"DISTWRAP_GUARD": "block"})
    print(f"8-byte all_reduce of two: {statistics.median(with_door):.3f} us, without "
          f"{statistics.median(without):.3f} us")
    if os.environ.get("TORCH_PYTHON"):
        told = run([os.environ["TORCH_PYTHON"], "-c", PYTHON],
                   {"PYTHONPATH": str(build / "python")})
        closing, opening, inside = map(float, told.split())
        print(f"Python: closing {closing:.1f} us, opening {opening:.1f} us, a "
              f"call from inside PyTorch {inside:.2f} us")


main()
