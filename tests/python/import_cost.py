"""How long `import distwrap` takes above an empty program, in turns.

  PYTHONPATH=build/release/python python3 import_cost.py [ROUNDS]

Each program runs on one processor, from compiled files. Prints the medians in
milliseconds.
"""

import os
import statistics
import subprocess
import sys
import time

PROGRAMS = ("pass", "import distwrap", "import enum, collections")


def seconds(program, environment):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    return time.perf_counter() - begin


def main(rounds=60):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    environment = {name: value for name, value in os.environ.items()
                   if name != "PYTHONDONTWRITEBYTECODE"}
    taken = {program: [] for program in PROGRAMS}
    for number in range(int(rounds) + 1):
        for program in PROGRAMS:
            one = seconds(program, environment)
            if number > 0:  # the first round reads from the disk
                taken[program].append(one)
    empty = taken[PROGRAMS[0]]
    for program in PROGRAMS[1:]:
        above = [one - two for one, two in zip(taken[program], empty)]
        print(f"{program}: {1000 * statistics.median(above):.1f} ms above "
              f"{1000 * statistics.median(empty):.1f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
