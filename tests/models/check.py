#!/usr/bin/env python3
"""Proves abort_flood.pml, and that the proof finds each mistake it names.

  check.py [NAME...]   all, or the mistakes of these names (without WRONG_)

Spin looks at every state of the model in both its forms; then at the model
with one mistake after the other, until it finds a claim broken. Prints a table.
Exits with 1 unless the model is right and each mistake was found, and with 77,
saying so, where `spin` or `gcc` is missing.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent / "abort_flood.pml"
FORMS = {"the flood": [], "an end beside it": ["-DENDS"]}
SKIPPED = 77
LIMIT_S = 600


def explore(flags):
    """Spin's verdict on the model with these macros: right, broken (with the
    claim), or why there is none; and the number of stored states."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*command):
            return subprocess.run(command, cwd=folder, capture_output=True,
                                  text=True, timeout=LIMIT_S, check=False)
        made = run("spin", "-a", *flags, str(MODEL))
        if made.returncode != 0 or "Error" in made.stdout + made.stderr:
            return "unread: " + made.stdout + made.stderr, 0
        made = run("gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE",
                   "-DMEMLIM=6000", "-o", "pan", "pan.c")
        if made.returncode != 0:
            return "unbuilt: " + made.stderr, 0
        # The judge, not Spin, decides which ranks may be stuck at the end.
        try:
            text = run("./pan", "-E", "-m100000").stdout
        except subprocess.TimeoutExpired:
            return f"not done in {LIMIT_S} s", 0
    states = re.search(r"([\d.e+]+) states, stored", text)
    states = int(float(states[1])) if states else 0
    if claim := re.search(r"assertion violated (.*?) \(at depth", text):
        return "broken: " + claim[1], states
    if "errors: 0" in text and not re.search(
            "Search not completed|max search depth|out of memory", text):
        return "right", states
    return "no answer: " + text[-500:], states


def judge(name, form, flags, wanted):
    began = time.monotonic()
    said, states = explore(FORMS[form] + flags)
    took = time.monotonic() - began
    good = said.split(":")[0] == wanted
    print(f"{'ok ' if good else 'BAD'} {name:34} {form:17} {states:>9} states "
          f"{took:5.1f} s  {said}", flush=True)
    return good


def mistakes(text):
    """Each with the form of the model that can show it: what it is about."""
    of_ends = re.compile("END|DESTROY|REMOVE|CLOSED|LOCK$|STATE_IS")
    return [(name, "an end beside it" if of_ends.search(name) else "the flood")
            for name in sorted(set(re.findall(r"\bWRONG_(\w+[A-Z])\b", text)))]


def main(names):
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool} here (Debian package {tool})")
            return SKIPPED
    known = mistakes(MODEL.read_text(encoding="utf-8"))
    if unknown := set(names) - {name for name, _ in known}:
        print("no such mistake:", *sorted(unknown))
        return 1
    tasks = [("none", form, [], "right") for form in FORMS if not names]
    tasks += [(name, form, ["-DWRONG_" + name], "broken")
              for name, form in known if not names or name in names]
    with concurrent.futures.ThreadPoolExecutor(
            min(2, os.cpu_count() or 1)) as pool:
        good = list(pool.map(lambda task: judge(*task), tasks))
    print(f"{sum(good)} of {len(tasks)} as they should be")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
