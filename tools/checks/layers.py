#!/usr/bin/env python3
"""Proves that the source tree keeps the rules of its layers.

  layers.py [ROOT]     checks the tree (default: the one this file is in)

Each layer of src/ says in its CMakeLists.txt what it may use (MAY_USE of
distwrap_layer). This reads that very list and looks at every #include:

  src/<layer>      itself, its layers, their public headers, the C ABI, and
                   plugins/sdk, which sees the C ABI alone; a layer of another
                   library (OF) also all public headers of libdistwrap.so
  public headers   likewise: each belongs to a layer
  the C ABI        <stdint.h>, <stddef.h> and itself
  backends/*       the C ABI, plugins/sdk, plugins/hostmem, and themselves
  plugins/*        the C ABI, plugins/sdk, and themselves
  ops/*            public headers of the tensor library, plugins/sdk, and
                   themselves
  examples         public headers

and that no layer uses a higher one, heavy headers stay in few files, third
parties stay where they belong, and every list of sources is explicit. Prints
one line for each breach and exits with 1 if there is any. Long files are
noted, which fails nothing.
"""

import pathlib
import re
import sys

# From the lowest to the highest: an arrow never points up.
ORDER = ["base", "store", "plugin", "algo", "accel", "layout", "comm", "group",
         "moe", "facade", "mesh", "dispatch", "graph", "capi"]

# Public header -> the layer that implements it.
PUBLIC = {
    "export.h": "base", "status.h": "base", "deadline.h": "base",
    "types.h": "base", "tensor_view.h": "base", "reduce_op.h": "base",
    "dlpack.h": "base",
    "store.h": "store",
    "object.h": "algo",
    "layout.h": "layout", "plan.h": "layout",
    "work.h": "comm", "communicator.h": "comm", "hooks.h": "comm",
    "group.h": "group", "group_options.h": "group", "guard.h": "group",
    "group_registry.h": "group", "session.h": "group",
    "moe_plan.h": "moe", "moe.h": "facade", "moe_raw.h": "facade",
    "moe_dynamic.h": "facade", "alltoallv_op.h": "facade",
    "batch.h": "facade", "distwrap.h": "facade",
    "prepared_operation.h": "facade",
    "groups.h": "facade", "objects.h": "facade",
    "op_options.h": "facade", "operations.h": "facade", "peer.h": "facade",
    "splits.h": "comm", "memory.h": "facade", "window.h": "facade",
    "mesh.h": "mesh", "redistribute.h": "mesh",
    "c.h": "capi", "c_types.h": "capi",
    "key_set.h": "dispatch", "keys.def": "dispatch", "scalar.h": "dispatch",
    "tensor.h": "dispatch", "arguments.h": "dispatch", "random.h": "dispatch",
    "value.h": "dispatch", "schema.h": "dispatch",
    "schema_types.def": "dispatch", "operator.h": "dispatch",
    "kernel.h": "dispatch", "registration.h": "dispatch",
    "mode.h": "dispatch", "boxing.h": "dispatch", "tensor_memory.h": "dispatch",
    "autograd.h": "dispatch", "function.h": "dispatch", "ops.h": "dispatch", "ops.def": "dispatch",
    "outputs.h": "dispatch", "throwing.h": "dispatch",
}

# Headers that are slow to compile: at most this many files of the product.
HEAVY = {"CLI": 3, "nlohmann": 3}

# Third party -> the only places that may include it.
HOMES = {
    "cbor": ("src/algo/objects/", "tests/"),
    "gloo": ("backends/gloo/", "tests/"),
    "uv": ("src/store/", "tools/", "tests/"),
    "gtest": ("tests/",),
    "gmock": ("tests/",),
    "benchmark": ("tests/",),
    "cblas": ("ops/cpu/", "tests/"),
    "sleef": ("ops/cpu/",),
    "Random123": ("ops/cpu/",),
}

TOP = ("include", "src", "backends", "ops", "plugins", "tools", "tests",
       "examples")
SUFFIXES = {".h", ".c", ".cc", ".def"}
MAX_LINES = 400

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
GLOB = re.compile(r"\b(file\s*\(\s*GLOB(_RECURSE)?|aux_source_directory\s*\()",
                  re.IGNORECASE)
LAYER = re.compile(r"\bdistwrap_layer\s*\(([^)]*)\)")
KEYWORDS = {"OF", "MAY_USE", "SOURCES", "LIBRARIES"}


def cmake_text(path):
    """Text of a CMake file without its comments."""
    return re.sub(r"#.*", "", path.read_text(encoding="utf-8"))


def cmake_lists(arguments):
    """Arguments of distwrap_layer by keyword, the name under ''."""
    lists, key = {"": []}, ""
    for word in arguments.split():
        if word in KEYWORDS:
            key = word
            lists.setdefault(key, [])
        else:
            lists[key].append(word)
    return lists


class Tree:
    """One source tree and what is wrong with it."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.errors = []
        self.notes = []
        self.may_use = {}
        self.library = {}  # layer -> its library; "" is libdistwrap.so
        self.files = sorted(
            path for top in TOP for path in (self.root / top).rglob("*")
            if path.is_file() and (path.suffix in SUFFIXES
                                   or path.name == "CMakeLists.txt"
                                   or path.parent == self.root / "tools/cmake"))

    def name(self, path):
        return path.relative_to(self.root).as_posix()

    def error(self, path, line, text):
        self.errors.append(f"{self.name(path)}:{line}: {text}")

    def check(self):
        self.read_layers()
        heavy = {key: [] for key in HEAVY}
        for path in self.files:
            if path.suffix in SUFFIXES:
                self.check_source(path, heavy)
            else:
                self.check_cmake(path)
        for key, users in heavy.items():
            if len(users) > HEAVY[key]:
                self.errors.append(
                    f"<{key}/...> is included by {len(users)} files, at most "
                    f"{HEAVY[key]} may: {', '.join(users)}")
        self.check_listed()
        return self.errors

    def read_layers(self):
        """Fills may_use from the CMake files of src/."""
        src = self.root / "src"
        folders = sorted(p for p in src.iterdir() if p.is_dir()
                         and any(f.suffix in SUFFIXES for f in p.rglob("*")))
        for folder in folders:
            cmake = folder / "CMakeLists.txt"
            found = LAYER.findall(cmake_text(cmake)) if cmake.exists() else []
            if len(found) != 1:
                self.errors.append(f"{self.name(folder)}: a folder of src/ has "
                                   "a CMakeLists.txt with one distwrap_layer()")
                continue
            lists = cmake_lists(found[0])
            layer, used = lists[""][0], lists.get("MAY_USE", [])
            if layer != folder.name:
                self.error(cmake, 1, f"the layer '{layer}' is not named like "
                                     "its folder")
            if layer not in ORDER:
                self.error(cmake, 1, f"'{layer}' is no layer; see ORDER")
                continue
            self.may_use[layer] = set(used)
            self.library[layer] = "".join(lists.get("OF", []))
            for other in used:
                if other not in ORDER:
                    self.error(cmake, 1, f"MAY_USE names '{other}', which is "
                                         "no layer")
                elif ORDER.index(other) >= ORDER.index(layer):
                    self.error(cmake, 1, f"{layer} may not use {other}: the "
                                         "arrow points up")
            for library in lists.get("LIBRARIES", []):
                other = re.sub(r"^distwrap(::|_)", "", library)
                if other != library and other in ORDER:
                    self.error(cmake, 1, f"{library} belongs into MAY_USE, not "
                                         "LIBRARIES")

    def check_cmake(self, path):
        text = cmake_text(path)
        for hit in GLOB.finditer(text):
            self.error(path, text.count("\n", 0, hit.start()) + 1,
                       "lists of sources are explicit: no globbing")
        if self.name(path).startswith(("backends/", "plugins/")):
            for hit in re.finditer(r"\babsl::", text):
                self.error(path, text.count("\n", 0, hit.start()) + 1,
                           "backends and plugins do not use Abseil")

    def check_source(self, path, heavy):
        name, text = self.name(path), path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_LINES and path.suffix != ".def":
            self.notes.append(f"{name}: {lines} lines; one idea a file?")
        for hit in INCLUDE.finditer(text):
            line = text.count("\n", 0, hit.start()) + 1
            quoted, target = hit.group(1) == '"', hit.group(2)
            wrong = self.judge(path, quoted, target)
            if wrong:
                self.error(path, line, f"includes {target}: {wrong}")
            first = re.split(r"[/.]", target)[0]
            if first in heavy and not name.startswith("tests/"):
                if name not in heavy[first]:
                    heavy[first].append(name)
            homes = HOMES.get(first)
            if not quoted and homes and not name.startswith(homes):
                self.error(path, line,
                           f"includes {target}: only {' '.join(homes)} may")

    def judge(self, path, quoted, target):
        """The fault of this include, or None."""
        name = self.name(path)
        parts = name.split("/")
        if ".." in target.split("/"):
            return "no way up out of a folder; write the path from its root"
        if name.startswith("include/distwrap/abi/"):
            if target in ("stdint.h", "stddef.h") and not quoted:
                return None
            if target.startswith("distwrap/abi/"):
                return None
            return "the C ABI depends on stdint.h and stddef.h only"
        if parts[0] in ("backends", "plugins"):
            return self.judge_backend(path, quoted, target)
        if parts[0] == "ops":
            return self.judge_operators(path, quoted, target)
        if parts[0] == "include":
            owner = PUBLIC.get(parts[-1])
            if owner is None:
                return (f"{parts[-1]} belongs to no layer; add it to PUBLIC "
                        "in tools/checks/layers.py")
            if quoted and not target.startswith("distwrap/"):
                return "a public header includes public headers only"
            return self.judge_public(owner, target)
        if parts[0] == "src":
            return self.judge_layer(parts[1], quoted, target)
        if parts[0] == "examples":
            if quoted or re.match(r"(base|store|plugin|comm|group)/", target):
                return "an example includes <distwrap/...>, as users do"
        return None

    def judge_backend(self, path, quoted, target):
        first = target.split("/")[0]
        if first == "absl":
            return "backends and plugins do not use Abseil"
        if first == "distwrap":
            if target.startswith("distwrap/abi/"):
                return None
            return "of distwrap a backend sees distwrap/abi only"
        if not quoted:
            return None
        if first == "sdk" or (path.parent / target).is_file():
            return None
        if first == "hostmem" and self.name(path).startswith("backends/"):
            return None
        own = self.root.joinpath(*self.name(path).split("/")[:2])
        if (own / target).is_file() or (
                first == own.name and (own.parent / target).is_file()):
            return None
        return ("a backend includes distwrap/abi, sdk, hostmem and its own "
                "files; plugins/sdk and plugins/hostmem include no backend")

    def judge_operators(self, path, quoted, target):
        first = target.split("/")[0]
        if first == "distwrap":
            return None
        own = self.root.joinpath(*self.name(path).split("/")[:2])
        if not quoted:
            return None
        if first == "sdk" or (first == own.name
                              and (own.parent / target).is_file()):
            return None
        return ("a library of operators includes public headers, sdk and its "
                f"own files, as \"{own.name}/file\"")

    def judge_public(self, layer, target):
        """An include of distwrap/... from `layer`."""
        if (not target.startswith("distwrap/")
                or target.startswith("distwrap/abi/")):
            return None
        owner = PUBLIC.get(target[len("distwrap/"):])
        if owner is None:
            return ("no layer owns this header; add it to PUBLIC in "
                    "tools/checks/layers.py")
        # The libraries above libdistwrap.so use it as programs do.
        if self.library.get(layer) and not self.library.get(owner):
            return None
        return self.judge_use(layer, owner)

    def judge_layer(self, layer, quoted, target):
        first = target.split("/")[0]
        if first == "distwrap":
            return self.judge_public(layer, target)
        if first in ORDER and "/" in target:
            return self.judge_use(layer, first)
        if first == "sdk":
            return None
        if quoted:
            return ("folder = include prefix: write \"layer/file\" or "
                    "\"distwrap/file\"")
        return None

    def judge_use(self, layer, other):
        if layer not in self.may_use and layer in ORDER:
            # The layer has no folder yet; the order still holds.
            if ORDER.index(other) <= ORDER.index(layer):
                return None
            return f"{layer} may not use {other}: the arrow points up"
        if other == layer or other in self.may_use.get(layer, set()):
            return None
        return f"{layer} does not name {other} in MAY_USE"

    def check_listed(self):
        """A CMake file names every source and every installed header."""
        for path in self.files:
            name = self.name(path)
            installed = name.startswith(("include/", "plugins/sdk/"))
            built = (path.suffix in (".c", ".cc") and name.startswith(
                ("src/", "backends/", "ops/", "plugins/", "tools/",
                 "examples/")))
            if path.suffix not in SUFFIXES or not (installed or built):
                continue
            folder, listed = path.parent, False
            while folder != self.root and not listed:
                cmake = folder / "CMakeLists.txt"
                if cmake.exists():
                    words = re.split(r"[\s()\"]+", cmake_text(cmake))
                    listed = path.relative_to(folder).as_posix() in words
                folder = folder.parent
            if not listed:
                self.error(path, 1, "no CMakeLists.txt lists this file")


def main(arguments):
    here = pathlib.Path(__file__).resolve().parents[2]
    tree = Tree(arguments[0] if arguments else here)
    errors = tree.check()
    for note in tree.notes:
        print(f"note: {note}")
    for error in errors:
        print(error)
    print(f"layers: {len(tree.files)} files, {len(tree.may_use)} layers, "
          f"{len(errors)} breaches")
    return 1 if errors or not tree.may_use else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
