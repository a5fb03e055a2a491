#!/usr/bin/env python3
"""Parts of docs/ that the distwrap command prints: compared, or written.

  made_docs.py --distwrap PROGRAM [--root ROOT]           compares
  made_docs.py --distwrap PROGRAM [--root ROOT] --write   writes them anew

Such a part stands between two comments:

  <!-- made by: distwrap info --errors --markdown -->
  ...
  <!-- end -->

Each error has a page in docs/errors/ that is such a part, and no other pages
are there.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

PART = re.compile(r"(<!-- made by: distwrap ([^\n]*?) -->\n)(.*?)(<!-- end -->\n)",
                  re.DOTALL)
BEGIN = re.compile(r"^<!-- made by: distwrap ", re.MULTILINE)


def printed(program, arguments):
    """The output of the command, between blank lines."""
    done = subprocess.run([program, *shlex.split(arguments)], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"distwrap {arguments} ended with "
                           f"{done.returncode}: {done.stderr.strip()}")
    return "\n" + done.stdout.rstrip("\n") + "\n\n"


def remake(text, program):
    """The text with all its parts made anew, and how many there are."""
    parts = len(PART.findall(text))
    if parts != len(BEGIN.findall(text)):
        raise RuntimeError("a part has no <!-- end -->")
    made = PART.sub(lambda hit: hit.group(1) + printed(program, hit.group(2)) +
                    hit.group(4), text)
    return made, parts


def check_error_pages(folder, program, write):
    """The faults of the list of pages; writes missing pages if asked to."""
    listed = json.loads(printed(program, "info --errors --json"))["errors"]
    pages = {error["page"] for error in listed}
    there = {path.stem for path in folder.glob("*")}
    if write:
        for page in pages - there:
            (folder / f"{page}.md").write_text(
                f"<!-- made by: distwrap info --error {page} --markdown -->\n"
                "<!-- end -->\n", encoding="utf-8")
        there |= pages
    if len(pages) < len(listed):
        yield "two errors have one page"
    for page in sorted(pages - there):
        yield f"docs/errors/{page}.md is not there; --write makes it"
    for page in sorted(there - pages):
        yield f"docs/errors/{page}.md is about no error"


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--distwrap", required=True, metavar="PROGRAM")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    errors, count = [], 0
    folder = options.root / "docs/errors"
    if folder.is_dir():
        errors += check_error_pages(folder, options.distwrap, options.write)
    for path in sorted((options.root / "docs").rglob("*.md")):
        name = path.relative_to(options.root).as_posix()
        text = path.read_text(encoding="utf-8")
        try:
            made, parts = remake(text, options.distwrap)
        except RuntimeError as error:
            errors.append(f"{name}: {error}")
            continue
        count += parts
        if made == text:
            continue
        if options.write:
            path.write_text(made, encoding="utf-8")
            print(f"{name}: written")
        else:
            errors.append(f"{name}: not what the command prints; "
                          "tools/checks/made_docs.py --write makes it anew")
    for error in errors:
        print(error)
    print(f"made_docs: {count} parts, {len(errors)} errors")
    return 1 if errors or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
