#!/usr/bin/env python3
"""Proves that what README.md and the pages in docs/ show is true.

  docs.py [--root ROOT]                compares, runs nothing
  docs.py [--root ROOT] --run BUILD    runs the blocks marked `run`

Every fenced block with a language stands below one comment that says what
proves it:

  <!-- file: examples/hello.cc -->          equals the file
  <!-- file: examples/hello.cc lines: 12 -->   ... which has at most 12 lines
                                            besides blank lines and comments
  <!-- run -->                              sh: runs without error, from the
                                            root; build/dev is the build folder
  <!-- output -->                           what the block above prints, lines
                                            in any order
  <!-- shown: why it is neither -->         a command that takes minutes, ...

A block without a language and a comment is a picture. Links to files of the
tree lead somewhere.
"""

import argparse
import dataclasses
import pathlib
import re
import shlex
import subprocess
import sys

FENCE = re.compile(r"^```(\S*)\s*$")
MARK = re.compile(r"^<!--\s*(file|run|output|shown)\s*(?::\s*(.*?))?\s*-->\s*$")
FILE = re.compile(r"^(\S+?)(?:\s+lines:\s*(\d+))?$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


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
    """What is wrong with a `file` block, or None."""
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
    """What is wrong with a block, or None."""
    if not block.kind:
        if block.language:
            return ("say above the block what proves it: <!-- file: -->, "
                    "<!-- run --> or <!-- shown: why -->")
        return None
    if block.kind == "file":
        return compare(root, block)
    if block.kind == "run" and block.language != "sh":
        return "only sh blocks are run"
    if block.kind == "shown" and not block.argument:
        return "<!-- shown: why --> needs the reason"
    return None


def dead_links(root, document, text):
    folder = (root / document).parent
    prose = re.sub(r"^```.*?^```\s*$", "", text,
                   flags=re.MULTILINE | re.DOTALL)
    return [f"{document}: the link to {target} leads nowhere"
            for target in LINK.findall(prose)
            if "://" not in target and not (folder / target).exists()]


def run(root, block, build):
    """Runs a block: what is wrong, or None, and what it printed."""
    script = block.text.replace("build/dev", shlex.quote(str(build)))
    done = subprocess.run(["sh", "-eu", "-c", script], cwd=root, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
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
    options = parser.parse_args(arguments)
    root = options.root
    documents = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    errors, count, ran = [], 0, 0
    for path in documents:
        name, text = path.relative_to(root).as_posix(), path.read_text(
            encoding="utf-8")
        blocks, wrong = read_blocks(name, text)
        errors += wrong + dead_links(root, name, text)
        printed = None
        for block in blocks:
            count += 1
            problem = judge(root, block)
            if not problem and options.run and block.kind == "run":
                ran += 1
                problem, printed = run(root, block, options.run.resolve())
            elif block.kind == "output":
                if options.run and (printed is None
                                    or not same_lines(printed, block.text)):
                    problem = "the block above prints something else"
                printed = None
            if problem:
                errors.append(f"{block.where()}: {problem}")
    for error in errors:
        print(error)
    print(f"docs: {len(documents)} documents, {count} blocks, {ran} run, "
          f"{len(errors)} errors")
    return 1 if errors or (options.run and not ran) else 0


if __name__ == "__main__":
    sys.exit(main())
