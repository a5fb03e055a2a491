#!/usr/bin/env python3
"""Proves that the blocks of README.md and of the pages in docs/ are true.

  docs.py [--root ROOT]                compares, runs nothing
  docs.py [--root ROOT] --run BUILD [--python PYTHON]
                                       runs the blocks marked `run`; those of
                                       the Python package by this interpreter
  docs.py [--root ROOT] --run BUILD --torch PYTHON
                                       runs those of PyTorch alone

Every fenced block with a language stands below one comment that names its
proof:

  <!-- file: examples/hello.cc -->          equals the file
  <!-- file: examples/hello.cc lines: 12 -->   ... which has at most 12 lines
                                            besides blank lines and comments
  <!-- run -->                              sh: runs without error, from the
                                            root; build/dev is the build folder
  <!-- run: python -->                      python: a program that runs without
                                            error on two ranks. sh: python3 is
                                            PYTHON, which finds the package.
                                            Without --python nothing is run
  <!-- run: torch -->                       the same with PyTorch; a program in
                                            Python is run by torchrun
  <!-- output -->                           the output of the block above, lines
                                            in any order
  <!-- shown: why it has no proof -->       a command that takes minutes, ...

A block without a language and a comment is a picture. Links to files of the
tree, and paths such as `src/comm/work.h` in the text, lead somewhere.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\S*)\s*$")
MARK = re.compile(r"^<!--\s*(file|run|output|shown)\s*(?::\s*(.*?))?\s*-->\s*$")
FILE = re.compile(r"^(\S+?)(?:\s+lines:\s*(\d+))?$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
FENCED = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)
# Folders whose READMEs are held to links and paths alone.
PARTS = ("backends", "examples", "plugins", "tests", "tools")
# A path from the root that stands as code in a sentence or table.
PATH = re.compile(r"`((?:backends|docs|examples|include|plugins|python|src|"
                  r"tests|tools)/[\w./-]+)[`\s]")


@dataclasses.dataclass
class Block:
    document: str
    line: int
    language: str
    kind: str  # file, run, output, shown or ""
    argument: str
    text: str

    def where(self):
        return f"{self.document}:{self.line}"


def read_blocks(document, text):
    """All fenced blocks of a document; an open one is an error."""
    blocks, errors, mark, open_block = [], [], None, None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is not None:
            if fence and not fence.group(1):
                blocks.append(open_block)
                open_block = None
            else:
                open_block.text += line + "\n"
        elif fence:
            kind, argument = mark or ("", "")
            open_block = Block(document, number, fence.group(1), kind,
                               argument, "")
            mark = None
        elif MARK.match(line):
            hit = MARK.match(line)
            mark = (hit.group(1), hit.group(2) or "")
        elif line.strip():
            mark = None
    if open_block is not None:
        errors.append(f"{open_block.where()}: the block does not end")
    return blocks, errors


def code_lines(text):
    """Lines besides blank ones and comments."""
    return sum(1 for line in text.splitlines()
               if line.strip() and not line.strip().startswith(("//", "#!")))


def compare(root, block):
    """The fault of a `file` block, or None."""
    hit = FILE.match(block.argument)
    if not hit:
        return "write <!-- file: path --> or <!-- file: path lines: N -->"
    path = root / hit.group(1)
    if not path.is_file():
        return f"there is no file {hit.group(1)}"
    text = path.read_text(encoding="utf-8")
    if text.strip("\n") != block.text.strip("\n"):
        return f"differs from {hit.group(1)}"
    if hit.group(2) and code_lines(text) > int(hit.group(2)):
        return (f"{hit.group(1)} has {code_lines(text)} lines of code, at most "
                f"{hit.group(2)} are promised")
    return None


def judge(root, block):
    """The fault of a block, or None."""
    if not block.kind:
        if block.language:
            return ("say above the block what proves it: <!-- file: -->, "
                    "<!-- run --> or <!-- shown: why -->")
        return None
    if block.kind == "file":
        return compare(root, block)
    if block.kind == "run" and block.argument not in (
            "", "python", "torch"):
        return "write <!-- run -->, <!-- run: python --> or <!-- run: torch -->"
    if block.kind == "run" and block.language != "sh" and (
            block.language != "python" or not block.argument):
        return "only sh blocks are run, and python where the mark says so"
    if block.kind == "shown" and not block.argument:
        return "<!-- shown: why --> needs the reason"
    return None


def dead_links(root, document, text):
    folder = (root / document).parent
    prose = FENCED.sub("", text)
    return [f"{document}: the link to {target} leads nowhere"
            for target in LINK.findall(prose)
            if "://" not in target and not (folder / target).exists()
            ] + [f"{document}: there is no {path}"
                 for path in PATH.findall(prose) if not (root / path).exists()]


def run(root, block, build, python):
    """Runs a block: its fault, or None, and its output."""
    script = block.text
    with tempfile.TemporaryDirectory() as folder:
        if block.language == "python":
            program = pathlib.Path(folder) / "block.py"
            program.write_text(script, encoding="utf-8")
            starts = ("python3 -m torch.distributed.run --nproc-per-node 2"
                      if block.argument == "torch"
                      else "build/dev/bin/distwrap run -n 2 python3 -B")
            script = f"{starts} {shlex.quote(str(program))}"
        script = script.replace("build/dev", shlex.quote(str(build)))
        environment = dict(os.environ)
        if block.argument:
            script = re.sub(r"\bpython3\b", shlex.quote(python), script)
            environment["PYTHONPATH"] = str(build / "python")
            environment |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(["sh", "-eu", "-c", script], cwd=root, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False,
                              env=environment)
    print(f"$ {script.strip()}\n{done.stdout}", flush=True)
    problem = f"ended with {done.returncode}" if done.returncode else None
    return problem, done.stdout


def same_lines(text, other):
    def lines(t):
        return sorted(line.rstrip() for line in t.strip("\n").splitlines())
    return lines(text) == lines(other)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--run", metavar="BUILD", type=pathlib.Path)
    parser.add_argument("--python", metavar="PYTHON")
    parser.add_argument("--torch", metavar="PYTHON")
    options = parser.parse_args(arguments)
    root = options.root
    documents = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    errors, count, ran = [], 0, 0
    for folder in PARTS:
        for path in sorted((root / folder).rglob("*.md")):
            errors += dead_links(root, path.relative_to(root).as_posix(),
                                 path.read_text(encoding="utf-8"))
    for path in documents:
        name, text = path.relative_to(root).as_posix(), path.read_text(
            encoding="utf-8")
        blocks, wrong = read_blocks(name, text)
        errors += wrong + dead_links(root, name, text)
        printed, skipped = None, False
        for block in blocks:
            count += 1
            problem = judge(root, block)
            if not problem and options.run and block.kind == "run":
                skipped = (block.argument != "torch" if options.torch else
                           block.argument == "torch" or
                           block.argument == "python" and not options.python)
                if not skipped:
                    ran += 1
                    problem, printed = run(root, block, options.run.resolve(),
                                           options.torch or options.python)
            elif block.kind == "output":
                if options.run and not skipped and (
                        printed is None
                        or not same_lines(printed, block.text)):
                    problem = "the block above prints something else"
                printed, skipped = None, False
            if problem:
                errors.append(f"{block.where()}: {problem}")
    for error in errors:
        print(error)
    print(f"docs: {len(documents)} documents, {count} blocks, {ran} run, "
          f"{len(errors)} errors")
    return 1 if errors or (options.run and not ran) else 0


if __name__ == "__main__":
    sys.exit(main())
