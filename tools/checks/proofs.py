#!/usr/bin/env python3
"""Proves that tests/proofs.txt names tests that exist, and that each reason of
reasons.def, each lesson and each bug is there: a reason with a test that names
it, the others with any test, or with a word on why there is none.

  proofs.py [ROOT]
"""

import pathlib
import re
import sys

KINDS = ("reason", "lesson", "bug", "trap")
REASON = re.compile(r"^DW_REASON\(\d+, \w+, (k\w+),", re.MULTILINE)
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
# How many lessons there are of each kind, numbered from 1.
LESSONS = {"A": 6, "D": 3, "G": 12, "H": 6, "K": 5, "M": 6, "N": 13, "P": 9,
           "Q": 3, "W": 7, "Y": 5}
# Tests of ctest.
ADDED = re.compile(r"add_test\(\s*NAME (\w+)")
# Cases of the tests in Python, which are named FILE.CASE without "_test.py",
# and torch/FILE.CASE for those that need PyTorch:
# objects.test_faults_of_the_root_fail_all_ranks.
PYTHON = re.compile(r"^ *def (test_\w+)\(", re.MULTILINE)
# Tests that are registered by a table.
LISTED = re.compile(r'^    \{"(\w+)", ', re.MULTILINE)


def find_tests(sources):
    """The text of each test, by name; None where it is in a table."""
    tests = {}
    for text in sources:
        starts = list(TEST.finditer(text))
        ends = [start.start() for start in starts[1:]] + [len(text)]
        for start, end in zip(starts, ends):
            tests[f"{start[1]}.{start[2]}"] = text[start.start():end]
        for listed in [*LISTED.finditer(text), *ADDED.finditer(text)]:
            tests[listed[1]] = None
    return tests


def find_python_tests(name, text):
    """The text of each case of a file NAME_test.py, by name."""
    starts = list(PYTHON.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {f"{name}.{start[1]}": text[start.start():end]
            for start, end in zip(starts, ends)}


def read_proofs(text):
    """(kind, name, proof) of each line, and errors."""
    rows, errors = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("|")]
        head = columns[0].split()
        if len(columns) != 3 or len(head) != 2 or head[0] not in KINDS \
                or not columns[2]:
            errors.append(f"line {number} is not KIND NAME | what | tests")
            continue
        rows.append((head[0], head[1], columns[2]))
    return rows, errors


# Reports of faults in other libraries, by number.
BUGS = (287, 477, 574, 649, 777, 2041, 2275, 2316, 2389, 2464, 2550, 2551, 2629,
        2632, 2955, 2974, 2990, 2991, 2992, 2993, 3093, 3105, 3853)


def all_lessons():
    return [f"{kind}{number}" for kind, most in LESSONS.items()
            for number in range(1, most + 1)]


def check(reasons, tests, text, lessons=(), bugs=()):
    """One line for each thing that is not proved."""
    rows, errors = read_proofs(text)
    seen = set()
    for kind, name, proof in rows:
        if (kind, name) in seen:
            errors.append(f"{kind} {name} is there twice")
        seen.add((kind, name))
        if proof.startswith(("later: ", "never: ")):
            continue
        for test in proof.split():
            if test not in tests:
                errors.append(f"{kind} {name}: there is no test {test}")
            elif kind == "reason" and not re.search(rf"\b{name}\b",
                                                    tests[test] or ""):
                errors.append(f"{kind} {name}: {test} does not name it")
    named = {name for kind, name, _ in rows if kind == "reason"}
    errors += [f"reason {name} has no line" for name in reasons
               if name not in named]
    errors += [f"lesson {name} has no line" for name in lessons
               if ("lesson", name) not in seen]
    errors += [f"bug {number} has no line" for number in bugs
               if ("bug", str(number)) not in seen]
    errors += [f"reason {name} is not in reasons.def"
               for name in sorted(named - set(reasons))]
    return errors


def main():
    root = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1
            else pathlib.Path(__file__).resolve().parents[2])
    reasons = REASON.findall((root / "include" / "distwrap" / "abi" /
                              "reasons.def").read_text(encoding="utf-8"))
    tests = find_tests(
        path.read_text(encoding="utf-8")
        for pattern in ("*.cc", "CMakeLists.txt")
        for path in sorted((root / "tests").rglob(pattern)))
    for folder, prefix in (("python", ""), ("torch", "torch/")):
        for path in sorted((root / "tests" / folder).glob("*_test.py")):
            tests |= find_python_tests(
                prefix + path.name.removesuffix("_test.py"),
                path.read_text(encoding="utf-8"))
    errors = check(reasons, tests, (root / "tests" / "proofs.txt").read_text(
        encoding="utf-8"), all_lessons(), BUGS)
    for error in errors:
        print(f"tests/proofs.txt: {error}")
    print(f"proofs: {len(reasons)} reasons, {len(tests)} tests, "
          f"{len(errors)} errors")
    return 1 if errors or not reasons else 0


if __name__ == "__main__":
    sys.exit(main())
