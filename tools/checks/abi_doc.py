#!/usr/bin/env python3
"""Compares docs/abi.md, and the frozen 1.0, with the headers of the C ABI.

  abi_doc.py [--root ROOT]

Every structure, slot, kind of operation and named constant of the headers
stands in the page as `code`; every `dw_` and `DW_` name of the page is one of
the headers.

Every line of 1.0, comments included, is still in the headers: a change of
meaning counts like a change of layout. What the headers have beside it says
since which minor; reasons need none.
"""

import argparse
import difflib
import pathlib
import re
import sys

PAGE = "docs/abi.md"
HEADERS = "include/distwrap/abi"
FROZEN = "tests/abi/v1_0/distwrap/abi"
SINCE = re.compile(r"\bsince 1\.\d+", re.I)
MINOR = re.compile(r"#define DW_ABI_MINOR\b")
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"\b(?:dw|DW)_\w+")
STRUCT = re.compile(r"\bstruct\s+(dw_\w+)")
TABLE = re.compile(r"struct (dw_(?:backend|host)_api) \{(.*?)\n\}", re.S)
SLOT = re.compile(r"\(\*(\w+)\)\(|\bdw_reduce_fn \(\*(\w+)\)\(")
DEFINE = re.compile(r"^#define (DW_[A-Z0-9_]+[A-Z0-9])[ \t(\\]", re.M)
OPERATION = re.compile(r"^DW_OP\(\s*\d+,\s*(\w+),", re.M)
ROW = re.compile(r"^DW_(CODE|REASON|DTYPE|REDUCTION)\(\s*-?\d+,\s*(\w+),", re.M)
PREFIX = {"CODE": "DW_", "REASON": "DW_REASON_", "DTYPE": "DW_DTYPE_",
          "REDUCTION": "DW_REDUCE_"}
# Help for writing headers and tables, which a reader of the page has no use for.
HELP = re.compile(r"DW_(CODE|DTYPE|OP|REASON|REDUCTION|STATIC_ASSERT|BIT|"
                  r"NOTE_(OWNER|STRING_?)|PLUGIN_\w+|\w+_SIZE_1_\d|SANITIZER)$")


def names_of(root):
    """(names that the page has to have, all names) of the headers."""
    needed, known = set(), set()
    for path in sorted((root / HEADERS).iterdir()):
        text = path.read_text()
        known.update(NAME.findall(text))
        if path.suffix == ".def":
            known.update(PREFIX[table] + name for table, name in ROW.findall(text))
            operations = {"DW_OP_" + name for name in OPERATION.findall(text)}
            needed |= operations
            known |= operations
            continue
        needed.update(STRUCT.findall(text))
        needed.update(name for name in DEFINE.findall(text)
                      if not HELP.match(name) and not name.endswith("_H_"))
        for _, body in TABLE.findall(text):
            needed.update(a or b for a, b in SLOT.findall(body))
    return needed, known


def compare(root):
    """The differences, one line each."""
    page = (root / PAGE).read_text()
    code = " ".join(CODE.findall(page))
    words = set(re.findall(r"\w+", code))
    needed, known = names_of(root)
    wrong = [f"{PAGE}: `{name}` of the headers is missing"
             for name in sorted(needed - words)]
    wrong += [f"{PAGE}: `{name}` is not in the headers"
              for name in sorted(set(NAME.findall(code)) - known)]
    return wrong


def thaw(root):
    """Where the headers are no longer the frozen ones, one line each."""
    wrong = []
    for path in sorted((root / FROZEN).glob("*")):
        now = (root / HEADERS / path.name).read_text().splitlines()
        then = path.read_text().splitlines()
        steps = difflib.SequenceMatcher(None, then, now, False).get_opcodes()
        for step, begin, end, first, last in steps:
            old, new = then[begin:end], now[first:last]
            if step == "equal" or all(map(MINOR.match, old + new)):
                continue
            place = f"{HEADERS}/{path.name}:{first + 1}"
            if old:
                wrong.append(f"{place}: 1.0 says '{old[0].strip()}'")
            elif path.name != "reasons.def" and not SINCE.search(" ".join(new)):
                wrong.append(f"{place}: says not since which minor it exists")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root
    wrong = compare(root) + thaw(root)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
