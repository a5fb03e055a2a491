#!/usr/bin/env python3
"""Makes of calls.toml what C++ registers, and the stubs.

  make_calls.py header TABLE > docs.h
  make_calls.py stubs TABLE BASE PACKAGE > __init__.pyi

BASE: stubs of everything but the operations, without docstrings. Those come from
TABLE, and for what is written in Python from the sources in the folder PACKAGE.
"""

import ast
import json
import pathlib
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


def document(call):
    """The docstring: what the call does, then the errors that are its own."""
    text = call["doc"].strip()
    if "errors" in call:
        text += "\nErrors: " + ", ".join(call["errors"]) + "."
    return text


def operations(table):
    return {name: call for name, call in table.items() if "args" in call}


def header(table):
    lines = ["#pragma once", "", "namespace distwrap_python::doc {"]
    for name, call in table.items():
        if "args" not in call:
            lines.append("inline constexpr char "
                         f"{name.replace('.', '_')}[] = "
                         f"{json.dumps(document(call))};")
    lines += ["}  // namespace distwrap_python::doc", "",
              "#define DISTWRAP_OPERATIONS(m) \\"]
    for name, call in operations(table).items():
        parts, by_name = [], False
        for argument, default, only in parameters(call["args"]):
            if only and not by_name:
                parts.append("nb::kw_only()")
                by_name = True
            # None is refused by the call itself, which names the argument.
            parts.append(f'nb::arg("{argument}")' + (
                ".none()" if default is ... else f" = {in_cpp(default)}"))
        lines.append(f"  m.def({json.dumps(name)}, &{name}, "
                     f"{', '.join(parts)}, {json.dumps(document(call))}); \\")
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


def documents_of(package):
    """{name: docstring} of the public functions, classes and methods that are
    written in Python."""
    found = {}
    for path in sorted(pathlib.Path(package).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            found[node.name] = ast.get_docstring(node)
            for member in getattr(node, "body", ()):
                if isinstance(node, ast.ClassDef) and isinstance(
                        member, ast.FunctionDef):
                    found[f"{node.name}.{member.name}"] = (
                        ast.get_docstring(member))
    return {name: text for name, text in found.items() if text}


def with_documents(base, documents):
    """The stubs with the docstrings of what they declare."""
    lines = base.splitlines()

    def add(node, name):
        text = documents.get(name)
        if text is None:
            return
        indent = " " * (node.col_offset + 4)
        doc = f'{indent}"""' + text.replace("\n", "\n" + indent) + '"""'
        doc = "\n".join(line.rstrip() for line in doc.split("\n"))
        if isinstance(node, ast.ClassDef):
            first = node.body[0]
            if first.lineno == node.lineno:  # class Error(Base): ...
                lines[node.lineno - 1] = (
                    lines[node.lineno - 1].removesuffix(" ...") + "\n" + doc)
            else:
                lines[node.lineno - 1] += "\n" + doc
        else:
            last = node.end_lineno - 1
            lines[last] = lines[last].removesuffix(" ...") + "\n" + doc

    for node in ast.parse(base).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            add(node, node.name)
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    add(member, f"{node.name}.{member.name}")
    return "\n".join(lines) + "\n"


def stubs(table, types, base, package):
    documents = documents_of(package) | {
        name: document(call) for name, call in table.items()}
    text = with_documents(base, documents)
    for name, call in operations(table).items():
        doc = document(call).replace("\n", "\n    ")
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
        sys.stdout.write(stubs(table, types, file.read(), argv[4]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
