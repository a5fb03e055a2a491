#!/usr/bin/env python3
"""Shows which tests of a run were skipped and why, and fails on a skip that
tests/skips.txt does not accept.

  skips.py RESULTS PRESET   judges what `ctest --output-junit RESULTS` wrote;
                            ctest has to keep the output of passed tests whole
  skips.py --check [ROOT]   each line of the list names a test that exists

GoogleTest skips single tests of a program that passes; ctest skips a whole
program by its exit code.
"""

import fnmatch
import pathlib
import re
import sys
import xml.etree.ElementTree

import proofs

PRESETS = ("dev", "release", "asan", "tsan", "fuzz", "any")
# A test that GoogleTest has skipped: its output, then its name.
SKIPPED = re.compile(r"^\[ RUN      \] (\S+)\n"
                     r"((?:(?!\[ RUN      \]).*\n)*?)"
                     r"\[  SKIPPED \] \1 \(", re.MULTILINE)
MESSAGE = re.compile(r"^\S+:\d+: Skipped\n(.*)", re.MULTILINE)
# A suite whose tests are registered by hand.
REGISTERED = re.compile(r"^class (\w+) : public testing::Test \{",
                        re.MULTILINE)
ADDED = re.compile(r"(?:add_test\(\s*NAME|distwrap_test\()\s*(\S+)")


def source_name(name):
    """Suite.Test as the source names it, without parameters."""
    suite, _, test = name.partition(".")
    parts = [part for part in suite.split("/") if not part.isdigit()]
    return f"{parts[-1]}.{test.split('/')[0]}"


def read_results(text):
    """(test, message) of each skip. A test of GoogleTest has a dot."""
    skips = []
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        output = case.findtext("system-out") or ""
        if case.find("skipped") is not None:
            lines = output.strip().splitlines()
            skips.append((case.get("name"), lines[-1] if lines else ""))
        for name, printed in SKIPPED.findall(output):
            message = MESSAGE.search(printed)
            skips.append((name, message[1] if message else ""))
    return skips


def read_list(text):
    """(presets, pattern, message, reason) of each line, and errors."""
    rows, errors = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("|")]
        head = columns[0].split()
        if len(columns) != 3 or len(head) < 2 or not all(columns) \
                or not set(head[:-1]) <= set(PRESETS):
            errors.append(f"line {number} is not "
                          "PRESET... TEST | message | reason")
            continue
        rows.append((head[:-1], head[-1], columns[1], columns[2]))
    return rows, errors


def accepts(row, preset, name, message):
    presets, pattern, part, _ = row
    if "." in pattern:
        name = source_name(name)
    return ((preset in presets or "any" in presets) and part in message
            and fnmatch.fnmatchcase(name, pattern))


def judge(skips, rows, preset):
    """Lines that say what was skipped, and those that nobody accepts."""
    told, errors = {}, []
    for name, message in skips:
        row = next((row for row in rows
                    if accepts(row, preset, name, message)), None)
        if row is None:
            errors.append(f"{name} was skipped: {message or 'without a word'}; "
                          "mend the cause, or add a line to tests/skips.txt")
        else:
            told.setdefault((row[2], row[3]), []).append(name)
    lines = []
    for (message, reason), names in told.items():
        lines.append(f"  {message}: {reason}")
        lines += [f"    {name}" for name in names]
    return lines, errors


def unknown(rows, sources, lists):
    """One line for each pattern that no test has. `sources`: texts of tests,
    `lists`: texts of CMakeLists.txt, whose variables stand for anything."""
    sources = list(sources)
    names = list(proofs.find_tests(sources))
    names += [f"{suite}.*" for text in sources
              for suite in REGISTERED.findall(text)]
    names += [re.sub(r"\$\{\w+\}", "x", name)
              for text in lists for name in ADDED.findall(text)]
    return [f"there is no test {pattern}" for _, pattern, _, _ in rows
            if not fnmatch.filter(names, pattern)]


def check(root):
    rows, errors = read_list(
        (root / "tests" / "skips.txt").read_text(encoding="utf-8"))
    tests = root / "tests"
    errors += unknown(
        rows,
        (path.read_text(encoding="utf-8") for path in tests.rglob("*.cc")),
        (path.read_text(encoding="utf-8")
         for path in tests.rglob("CMakeLists.txt")))
    for error in errors:
        print(f"tests/skips.txt: {error}")
    print(f"skips: {len(rows)} lines, {len(errors)} errors")
    return 1 if errors or not rows else 0


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    if arguments[:1] == ["--check"] and len(arguments) <= 2:
        return check(pathlib.Path(arguments[1]) if arguments[1:] else root)
    if len(arguments) != 2 or arguments[1] not in PRESETS:
        print(__doc__, file=sys.stderr)
        return 2
    results, preset = arguments
    rows, errors = read_list(
        (root / "tests" / "skips.txt").read_text(encoding="utf-8"))
    skips = read_results(pathlib.Path(results).read_text(encoding="utf-8"))
    lines, unlisted = judge(skips, rows, preset)
    errors += unlisted
    print(f"{len(skips)} tests skipped, {len(unlisted)} of them without a "
          "reason in tests/skips.txt", *lines, sep="\n")
    for error in errors:
        print(f"error: {error}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
