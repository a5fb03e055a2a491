#!/usr/bin/env python3
"""Makes of calls.toml what C++ registers and the stubs of the operations.

  make_calls.py header TABLE > docs.h
  make_calls.py stubs TABLE BASE > __init__.pyi   BASE: stubs of everything else
"""

import ast
import json
import sys
import tomllib


def parameters(args):
    """(name, default or None for none, by name only) of a signature."""
    tree = ast.parse(f"def f({args}): pass").body[0].args
    missing = len(tree.args) - len(tree.defaults)
    for i, arg in enumerate(tree.args):
        default = tree.defaults[i - missing].value if i >= missing else ...
        yield arg.arg, default, False
    for name in ("timeout", "label"):
        if name not in [arg.arg for arg in tree.args]:
            yield name, None, True


def in_cpp(default):
    if default is None:
        return "nb::none()"
    return json.dumps(default)


def header(table):
    lines = ["#define DISTWRAP_OPERATIONS(m) \\"]
    for name, call in table.items():
        parts, by_name = [], False
        for argument, default, only in parameters(call["args"]):
            if only and not by_name:
                parts.append("nb::kw_only()")
                by_name = True
            # None is refused by the call itself, which names the argument.
            parts.append(f'nb::arg("{argument}")' + (
                ".none()" if default is ... else f" = {in_cpp(default)}"))
        doc = json.dumps(call["doc"].strip())
        lines.append(f"  m.def({json.dumps(name)}, &{name}, "
                     f"{', '.join(parts)}, {doc}); \\")
    return "\n".join(lines) + "\n  static_assert(true)\n"


def signature(name, call, types):
    parts, by_name = [], False
    for argument, default, only in parameters(call["args"]):
        if only and not by_name:
            parts.append("*")
            by_name = True
        parts.append(f"{argument}: {types[argument]}" + (
            "" if default is ... else f" = {default!r}"))
    parts = [p.replace("op: " + types["op"] + " = None",
                       "op: " + types["op"] + " = ReduceOp.SUM")
             for p in parts]
    return (f"def {name}({', '.join(parts)}) -> "
            f"{call.get('returns', 'Work | None')}:")


def stubs(table, types, base):
    text = base
    for name, call in table.items():
        doc = call["doc"].strip().replace("\n", "\n    ")
        text += f'\n\n{signature(name, call, types)}\n    """{doc}"""\n'
    return text


def main(argv):
    with open(argv[2], "rb") as file:
        table = tomllib.load(file)
    types = table.pop("types")
    if argv[1] == "header":
        sys.stdout.write(header(table))
        return 0
    with open(argv[3], encoding="utf-8") as file:
        sys.stdout.write(stubs(table, types, file.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
