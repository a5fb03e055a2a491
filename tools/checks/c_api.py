#!/usr/bin/env python3
"""The C API against the facade, the version script, the library and the past.

  c_api.py names [LIBRARY]   each call of the facade has a function in c.h, as has
                             each that the tables of docs/c.md name; the
                             version script names the functions of c.h and no
                             others; LIBRARY exports what the script names
  c_api.py map               adds to the version script, under the version of
                             the project, what c.h has and it has not
  c_api.py since-tag RECORD  every line that RECORD (a golden file) had at the
                             last tag is there still

Adding a function is its declaration in c.h, its definition in src/capi, and
`c_api.py map`; the record then takes it by `abi_layout.py record`.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/distwrap/c.h"
MAP = ROOT / "tools/cmake/libdistwrap.map"
FACADE = ("distwrap.h", "operations.h", "groups.h", "guard.h", "objects.h", "hooks.h",
          "memory.h", "moe.h", "moe_dynamic.h", "moe_raw.h", "peer.h",
          "redistribute.h", "window.h")
# Calls whose result is used at once: one function for both.
IN_ONE = {"get_mem_allocator": "mem_alloc", "moe_plan": "moe_plan_create"}
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"DISTWRAP_EXPORT\s+[^;{]*?\bdistwrap_(\w+)\([^;]*?\);")
CALL = re.compile(r"^DISTWRAP_EXPORT [^;(]*?\b(\w+)\(", re.MULTILINE)
NODE = re.compile(r"(DISTWRAP_(\d+\.\d+)) \{\n  global:\n(.*?)\n\}[^;]*;", re.S)
def functions(text):
    """Names of the functions that the header declares, without the prefix."""
    return set(FUNCTION.findall(COMMENT.sub(" ", text)))


def types(guide):
    """Structs and handles that the guide names; functions are left out."""
    text = COMMENT.sub(" ", (ROOT / "include/distwrap/c_types.h").read_text())
    return set(re.findall(r"\bdistwrap_(\w+)", text)) & set(
        re.findall(r"distwrap_(\w+)", guide))


def mapped(text):
    """{name: version node} of the version script."""
    return {name: node for node, _, body in NODE.findall(COMMENT.sub("", text))
            for name in re.findall(r"distwrap_(\w+);", body)}


def difference(what, expected, found):
    return ([f"{what} lacks {name}" for name in sorted(expected - found)] +
            [f"{what} has {name} on its own"
             for name in sorted(found - expected)])


def exported(library):
    """{(name, version)} of the C functions in a shared library."""
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                          text=True, stdout=subprocess.PIPE).stdout
    return set(re.findall(r" T distwrap_(\w+)@@(\S+)$", text, re.MULTILINE))


def names(library):
    known = functions(HEADER.read_text())
    nodes = mapped(MAP.read_text())
    calls = set()
    for header in FACADE:
        text = (ROOT / "include/distwrap" / header).read_text()
        calls |= {IN_ONE.get(name, name) for name in CALL.findall(text)}
    errors = [f"c.h lacks {name} of the facade"
              for name in sorted(calls - known)]
    errors += difference("libdistwrap.map", known, set(nodes))
    if library:
        errors += [f"the library {'lacks' if wanted else 'exports'} {pair}"
                   for wanted, pairs in (
                       (True, set(nodes.items()) - exported(library)),
                       (False, exported(library) - set(nodes.items())))
                   for pair in sorted(pairs)]
    # The guide's tables: what it names is there.
    guide = (ROOT / "docs/c.md").read_text()
    errors += [f"docs/c.md names distwrap_{name}, which c.h lacks"
               for name in sorted(set(re.findall(r"distwrap_(\w+)", guide))
                                  - known - types(guide))]
    return errors, f"{len(known)} functions, {len(calls)} calls"


def write_map():
    text = MAP.read_text()
    new = functions(HEADER.read_text()) - set(mapped(text))
    version = re.search(r"project\(distwrap VERSION (\d+\.\d+)",
                        (ROOT / "CMakeLists.txt").read_text()).group(1)
    for node, of, body in NODE.findall(text):
        if of == version:
            lines = sorted(set(body.splitlines()) |
                           {f"    distwrap_{name};" for name in new})
            MAP.write_text(text.replace(f"{node} {{\n  global:\n{body}",
                                        f"{node} {{\n  global:\n"
                                        + "\n".join(lines)))
            return [], f"{len(new)} added under {node}"
    return [f"libdistwrap.map has no DISTWRAP_{version} yet: begin it"], ""


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)


def since_tag(record):
    tag = git("describe", "--tags", "--abbrev=0").stdout.strip()
    if not tag:
        return [], "no tag yet"
    path = pathlib.Path(record).resolve().relative_to(ROOT)
    was = git("show", f"{tag}:{path}")
    if was.returncode != 0:
        return [], f"{tag} has no {path}"
    now = set(pathlib.Path(record).read_text().splitlines())
    lost = [line for line in was.stdout.splitlines()
            if line and not line.startswith("#") and line not in now]
    return [f"changed or lost since {tag}: {line}" for line in lost], tag


def main(argv):
    if argv[1:2] == ["names"]:
        errors, note = names(argv[2] if len(argv) > 2 else None)
    elif argv[1:] == ["map"]:
        errors, note = write_map()
    elif argv[1:2] == ["since-tag"] and len(argv) == 3:
        errors, note = since_tag(argv[2])
    else:
        sys.stderr.write(__doc__)
        return 2
    for error in errors:
        print(error)
    print(f"c_api: {note}, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
