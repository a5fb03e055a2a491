#!/usr/bin/env python3
"""Layout of the C ABI: generated from its headers, compared with a record.

  abi_layout.py source INCLUDE_DIR [HEADER]  C source of a program that prints
                                             the layout of the headers of the
                                             ABI there, or of HEADER alone and
                                             what functions it declares
  abi_layout.py check GOLDEN PROGRAM [same|newer|older]
                                             what PROGRAM prints against GOLDEN:
                                             equal; nothing lost; nothing new
  abi_layout.py record GOLDEN PROGRAM        adds new lines to GOLDEN; changed
                                             and lost ones are refused

Lines: `struct field offset size`; for a leaf struct, which may not grow,
`struct (leaf) 0 size`; for a constant `value NAME number`; for a function
`function NAME declaration`. The program asserts
that the fields found cover each struct without a gap, so that none can be
forgotten and no padding goes unnamed.
"""

import pathlib
import re
import subprocess
import sys

STRUCT = re.compile(
    r"(?:typedef\s+)?struct\s+((?:dw|distwrap)_\w+)\s*\{\s*(/\*\s*leaf\b.*?\*/)?"
    r"(.*?)\n\}", re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"\(\s*\*\s*(\w+)\s*\)\s*\(")
DEFINE = re.compile(r"^#define\s+(DW_[A-Z0-9_]+[A-Z0-9])[ \t]+(\S.*)$", re.M)
ROW = re.compile(r"^DW_([A-Z]+)\(\s*-?\w+,\s*(\w+),", re.M)
# C names of the rows of a table.
PREFIX = {"CODE": "DW_", "REASON": "DW_REASON_", "OP": "DW_OP_",
          "REDUCTION": "DW_REDUCE_", "DTYPE": "DW_DTYPE_"}
# Not numbers that are frozen.
NOT_FROZEN = {"DW_ABI_MINOR", "DW_SANITIZER"}
NUMBER = re.compile(r"^\(?-?(0x[0-9A-Fa-f]+|\d+)[uUlL]*\)?$|^UINT32_MAX$"
                    r"|^INT64_MAX$")
DECLARED = re.compile(r"^DISTWRAP_EXPORT\s+([^;{]*?\b(distwrap_\w+)\([^;]*?\));",
                      re.M)


def fields_of(body, where):
    """Names of the fields of a struct's body without comments."""
    names = []
    for declaration in body.split(";"):
        declaration = " ".join(declaration.split())
        if not declaration:
            continue
        function = FUNCTION.search(declaration)
        if function:
            names.append(function.group(1))
            continue
        for declarator in declaration.split(","):
            match = re.search(r"(\w+)\s*(\[\w+\])?$", declarator.strip())
            if not match:
                raise ValueError(f"{where}: cannot read '{declaration}'")
            names.append(match.group(1))
    return names


def structs_of(text):
    """[(name, is leaf, fields)] of a header."""
    return [(name, bool(leaf), fields_of(COMMENT.sub(" ", body), name))
            for name, leaf, body in STRUCT.findall(text)]


def constants_of(text):
    """Names of the frozen numbers of a header."""
    names = []
    for name, value in DEFINE.findall(text):
        value = COMMENT.sub(" ", value).split("/*")[0].strip()
        if name not in NOT_FROZEN and NUMBER.match(value):
            names.append(name)
    return names


def program_of(include, only=None):
    """C source that prints the layout of the ABI's headers, or of one header."""
    folder = include / "distwrap" / "abi"
    headers = [include / only] if only else sorted(folder.glob("*.h"))
    if not headers:
        raise ValueError(f"no headers in {folder}")
    out = [f'#include "{h.relative_to(include).as_posix()}"' for h in headers]
    out += ["#include <stdio.h>", "", "int main(void) {"]
    for header in headers:
        text = header.read_text()
        for name, leaf, fields in structs_of(text):
            end = "0"
            for field in fields:
                at = f"offsetof({name}, {field})"
                size = f"sizeof((({name}*)0)->{field})"
                out.append(f'  _Static_assert({at} == {end}, '
                           f'"gap before {name}.{field}");')
                out.append(f'  printf("{name} {field} %zu %zu\\n", {at}, '
                           f'{size});')
                end = f"{at} + {size}"
            out.append(f'  _Static_assert(sizeof({name}) == {end}, '
                       f'"gap at the end of {name}");')
            if leaf:
                out.append(f'  printf("{name} (leaf) 0 %zu\\n", '
                           f'sizeof({name}));')
        for name in constants_of(text):
            out.append(f'  printf("value {name} %lld\\n", (long long)({name}));')
        for declaration, name in DECLARED.findall(COMMENT.sub(" ", text)):
            declaration = " ".join(declaration.split())
            out.append(f'  printf("function {name} {declaration}\\n");')
    for table in [] if only else sorted(folder.glob("*.def")):
        for kind, name in ROW.findall(table.read_text()):
            name = PREFIX[kind] + name
            out.append(f'  printf("value {name} %lld\\n", (long long)({name}));')
    return "\n".join(out + ["  return 0;", "}", ""])


def key(line):
    """The words that identify a line."""
    words = line.split()
    return tuple(words[:2])


def lines_of(text):
    return [line for line in text.splitlines()
            if line and not line.startswith("#")]


def problems(golden, found, mode):
    """The faults of `found`, one text each."""
    was = {key(line): line for line in golden}
    now = {key(line): line for line in found}
    texts = [f"changed: '{was[k]}' is now '{now[k]}'"
             for k in was if k in now and was[k] != now[k]]
    if mode in ("same", "newer"):
        texts += [f"lost: '{was[k]}'" for k in was if k not in now]
    if mode in ("same", "older"):
        texts += [f"not recorded: '{now[k]}'" for k in now if k not in was]
    return texts


def main(argv):
    if len(argv) in (3, 4) and argv[1] == "source":
        sys.stdout.write(program_of(pathlib.Path(argv[2]), *argv[3:]))
        return 0
    if len(argv) < 4 or argv[1] not in ("check", "record"):
        sys.stderr.write(__doc__)
        return 2
    golden_file = pathlib.Path(argv[2])
    golden = golden_file.read_text() if golden_file.exists() else ""
    found = lines_of(subprocess.run([argv[3]], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout)
    mode = "newer" if argv[1] == "record" else (argv + ["same"])[4]
    texts = problems(lines_of(golden), found, mode)
    if texts:
        print("\n".join(texts))
        print(f"{golden_file.name}: only new lines may appear; "
              "`abi_layout.py record` adds them")
        return 1
    if argv[1] == "record":
        head = [line for line in golden.splitlines() if line.startswith("#")]
        golden_file.write_text("\n".join(head + found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
