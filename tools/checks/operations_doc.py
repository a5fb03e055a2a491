#!/usr/bin/env python3
"""Proves that docs/operations.md lists every call of operations.h, and Batch
has a method for each that can be an item.

  operations_doc.py [ROOT]
"""

import pathlib
import re
import sys

CALL = re.compile(r"^DISTWRAP_EXPORT absl::Status\S* ?(\w+)\(|"
                  r"^DISTWRAP_EXPORT absl::StatusOr<[^;]*?>> (\w+)\(",
                  re.MULTILINE)
METHOD = re.compile(r"^  int (\w+)\(", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
# Blocking, or said in another way by a batch.
NO_ITEMS = {"monitored_barrier", "isend", "irecv", "batch_isend_irecv"}


def compare(what, expected, found):
    """One line for each name that only one side has."""
    return ([f"{what} lacks {name}" for name in sorted(expected - found)] +
            [f"{what} has {name}, which operations.h has not"
             for name in sorted(found - expected)])


def main():
    root = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1
            else pathlib.Path(__file__).resolve().parents[2])
    headers = root / "include" / "distwrap"
    calls = {a or b for a, b in CALL.findall(
        (headers / "operations.h").read_text(encoding="utf-8"))}
    methods = set(METHOD.findall(
        (headers / "batch.h").read_text(encoding="utf-8"))) - {"add", "size"}
    rows = set(ROW.findall(
        (root / "docs" / "operations.md").read_text(encoding="utf-8")))
    errors = (compare("docs/operations.md", calls, rows) +
              compare("Batch", calls - NO_ITEMS, methods))
    for error in errors:
        print(error)
    print(f"operations_doc: {len(calls)} calls, {len(errors)} errors")
    return 1 if errors or not calls else 0


if __name__ == "__main__":
    sys.exit(main())
