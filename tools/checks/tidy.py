#!/usr/bin/env python3
"""Runs clang-tidy on the product's files of a compilation database.

  tidy.py BUILD [-j N]

Prints what clang-tidy finds; exits with 1 if it finds anything. A file is
looked at again only when it, any header, or the rules have changed since it
was last found clean.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

FOLDERS = ("src", "backends", "plugins", "tools", "examples")


def newest(root):
    """Time of the last change of any header or of the rules."""
    paths = [root / ".clang-tidy"]
    for top in ("include", *FOLDERS):
        paths += [p for p in (root / top).rglob("*")
                  if p.suffix in (".h", ".def")]
    return max(p.stat().st_mtime for p in paths)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=os.cpu_count(), dest="jobs")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    database = json.loads(
        (arguments.build / "compile_commands.json").read_text())
    files = sorted({
        pathlib.Path(entry["directory"], entry["file"]).resolve()
        for entry in database})
    files = [f for f in files if f.suffix == ".cc" and any(
        f.is_relative_to(root / folder) for folder in FOLDERS)]
    if not files:
        sys.exit("tidy.py: the database has no file of ours")
    headers = newest(root)
    stamps = arguments.build / "tidy"

    def look(file):
        stamp = stamps / (file.relative_to(root).as_posix() + ".ok")
        if stamp.exists() and stamp.stat().st_mtime > max(
                headers, file.stat().st_mtime):
            return file, 0, ""
        run = subprocess.run(
            ["clang-tidy", "-p", arguments.build, "--quiet",
             "--warnings-as-errors=*", file],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)
        if run.returncode == 0:
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()
            return file, 0, run.stdout
        # stderr counts suppressed warnings; it matters where nothing else is.
        return file, run.returncode, run.stdout or run.stderr

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for file, code, text in pool.map(look, files):
            if code:
                bad += 1
                print(f"{file.relative_to(root)}:\n{text}", flush=True)
    print(f"clang-tidy: {len(files)} files, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
