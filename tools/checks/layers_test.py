#!/usr/bin/env python3
"""Tests layers.py on a small good tree and on trees with one breach each."""

import pathlib
import tempfile
import unittest

import layers

GOOD = {
    "include/distwrap/abi/types.h": "#include <stdint.h>\n",
    "include/distwrap/abi/plugin.h": '#include "distwrap/abi/types.h"\n',
    "include/CMakeLists.txt":
        "set(HEADERS distwrap/abi/types.h distwrap/abi/plugin.h\n"
        "  distwrap/status.h distwrap/store.h)\n",
    "include/distwrap/status.h": "#include <absl/status/status.h>\n",
    "include/distwrap/store.h": '#include "distwrap/status.h"\n',
    "src/CMakeLists.txt": "add_subdirectory(base)\n",
    "src/base/CMakeLists.txt":
        "distwrap_layer(base\n  MAY_USE\n  SOURCES\n    error.cc)\n",
    "src/base/error.cc": '#include "base/error.h"\n#include <string>\n',
    "src/base/error.h": '#include "distwrap/status.h"\n',
    "src/store/CMakeLists.txt":
        "distwrap_layer(store\n  MAY_USE base\n  SOURCES\n    memory.cc\n"
        "  LIBRARIES absl::strings)\n",
    "src/store/memory.cc":
        '#include "base/error.h"\n#include "distwrap/store.h"\n'
        "#include <uv.h>\n",
    "src/comm/CMakeLists.txt":
        "distwrap_layer(comm MAY_USE base SOURCES work.cc)\n",
    "src/comm/work.cc": '#include "distwrap/abi/plugin.h"\n',
    "backends/gloo/CMakeLists.txt":
        "distwrap_backend(gloo PLUGIN plugin.cc SOURCES setup.cc)\n",
    "backends/gloo/setup.cc":
        '#include "backend.h"\n#include "distwrap/abi/plugin.h"\n'
        '#include "sdk/fail.h"\n#include "hostmem/wait.h"\n'
        "#include <gloo/context.h>\n",
    "backends/gloo/plugin.cc": '#include "backend.h"\n',
    "backends/gloo/backend.h": "#include <vector>\n",
    "plugins/sdk/CMakeLists.txt": "set(HEADERS fail.h)\n",
    "plugins/sdk/fail.h": '#include "distwrap/abi/types.h"\n',
    "plugins/hostmem/CMakeLists.txt": "add_library(hostmem wait.cc)\n",
    "plugins/hostmem/wait.cc": '#include "hostmem/wait.h"\n',
    "plugins/hostmem/wait.h":
        '#include "sdk/fail.h"\n#include "distwrap/abi/types.h"\n',
    "tools/cli/CMakeLists.txt": "add_executable(distwrap_cli main.cc)\n",
    "tools/cli/main.cc":
        '#include "distwrap/store.h"\n#include "base/error.h"\n'
        "#include <CLI/CLI.hpp>\n",
    "tests/unit/base/error_test.cc":
        '#include "base/error.h"\n#include <gtest/gtest.h>\n',
    "examples/CMakeLists.txt": "add_executable(hello hello.cc)\n",
    "examples/hello.cc": "#include <distwrap/store.h>\n",
}

# Files that are added to the good tree, and the fault that must be reported.
BREACHES = {
    "upward": (
        {"src/base/CMakeLists.txt":
            "distwrap_layer(base MAY_USE comm SOURCES error.cc)\n"},
        "base may not use comm: the arrow points up"),
    "undeclared layer": (
        {"src/comm/work.cc": '#include "store/memory.h"\n'},
        "comm does not name store in MAY_USE"),
    "undeclared public header": (
        {"src/comm/work.cc": '#include "distwrap/store.h"\n'},
        "comm does not name store in MAY_USE"),
    "angle brackets hide nothing": (
        {"src/base/error.cc": "#include <store/memory.h>\n"},
        "base does not name store in MAY_USE"),
    "public header points up": (
        {"include/distwrap/status.h": '#include "distwrap/store.h"\n'},
        "base does not name store in MAY_USE"),
    "public header sees src": (
        {"include/distwrap/status.h": '#include "base/error.h"\n'},
        "a public header includes public headers only"),
    "public header of nobody": (
        {"include/distwrap/extra.h": "#include <string>\n",
         "include/CMakeLists.txt": GOOD["include/CMakeLists.txt"]
            + "set(MORE distwrap/extra.h)\n"},
        "extra.h belongs to no layer"),
    "linked around MAY_USE": (
        {"src/comm/CMakeLists.txt":
            "distwrap_layer(comm MAY_USE base SOURCES work.cc\n"
            "  LIBRARIES distwrap::store)\n"},
        "belongs into MAY_USE"),
    "no prefix": (
        {"src/base/error.cc": '#include "error.h"\n'},
        "folder = include prefix"),
    "way up": (
        {"src/base/error.cc": '#include "../comm/work.h"\n'},
        "no way up out of a folder"),
    "layer without its function": (
        {"src/comm/CMakeLists.txt": "add_library(comm work.cc)\n"},
        "a CMakeLists.txt with one distwrap_layer()"),
    "unknown layer": (
        {"src/misc/CMakeLists.txt": "distwrap_layer(misc SOURCES a.cc)\n",
         "src/misc/a.cc": ""},
        "'misc' is no layer"),
    "backend sees src": (
        {"backends/gloo/setup.cc": '#include "base/error.h"\n'},
        "a backend includes distwrap/abi, sdk, hostmem and its own files"),
    "backend sees the facade": (
        {"backends/gloo/setup.cc": '#include "distwrap/status.h"\n'},
        "of distwrap a backend sees distwrap/abi only"),
    "backend uses Abseil": (
        {"backends/gloo/setup.cc": "#include <absl/status/status.h>\n"},
        "do not use Abseil"),
    "backend links Abseil": (
        {"backends/gloo/CMakeLists.txt":
            "distwrap_backend(gloo PLUGIN plugin.cc SOURCES setup.cc\n"
            "  LIBRARIES absl::strings)\n"},
        "do not use Abseil"),
    "sdk sees src": (
        {"plugins/sdk/fail.h": '#include "base/error.h"\n'},
        "a backend includes distwrap/abi, sdk, hostmem and its own files"),
    "sdk sees hostmem": (
        {"plugins/sdk/fail.h": '#include "hostmem/wait.h"\n'},
        "plugins/sdk and plugins/hostmem include no backend"),
    "hostmem sees a backend": (
        {"plugins/hostmem/wait.h": '#include "gloo/backend.h"\n'},
        "plugins/sdk and plugins/hostmem include no backend"),
    "hostmem sees src": (
        {"plugins/hostmem/wait.h": '#include "base/error.h"\n'},
        "plugins/sdk and plugins/hostmem include no backend"),
    "source of hostmem that nobody builds": (
        {"plugins/hostmem/lock.cc": '#include "hostmem/wait.h"\n'},
        "no CMakeLists.txt lists this file"),
    "C ABI with more": (
        {"include/distwrap/abi/types.h": "#include <string.h>\n"},
        "the C ABI depends on stdint.h and stddef.h only"),
    "gloo away from home": (
        {"src/comm/work.cc": "#include <gloo/context.h>\n"},
        "only backends/gloo/ tests/ may"),
    "heavy header in too many files": (
        {f"tools/cli/c{i}.cc": "#include <CLI/CLI.hpp>\n" for i in range(3)}
        | {"tools/cli/CMakeLists.txt":
            "add_executable(distwrap_cli main.cc c0.cc c1.cc c2.cc)\n"},
        "<CLI/...> is included by 4 files, at most 3 may"),
    "glob": (
        {"src/CMakeLists.txt": "file (GLOB sources *.cc)\n"},
        "no globbing"),
    "file that nobody builds": (
        {"src/base/orphan.cc": ""},
        "no CMakeLists.txt lists this file"),
    "header that is not installed": (
        {"include/distwrap/abi/extra.h": "#include <stdint.h>\n"},
        "no CMakeLists.txt lists this file"),
    "example sees src": (
        {"examples/hello.cc": "#include <base/error.h>\n"},
        "an example includes <distwrap/...>"),
}


class LayersTest(unittest.TestCase):

    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return layers.Tree(root).check()

    def test_good_tree_has_no_breach(self):
        self.assertEqual(self.check(GOOD), [])

    def test_each_breach_is_found(self):
        for title, (files, expected) in BREACHES.items():
            with self.subTest(title):
                errors = self.check(GOOD | files)
                self.assertTrue(any(expected in e for e in errors), errors)
                for error in errors:
                    self.assertIn(expected, error)

    def test_comment_in_cmake_grants_nothing(self):
        errors = self.check(GOOD | {
            "src/comm/CMakeLists.txt":
                "distwrap_layer(comm MAY_USE base # store\n SOURCES work.cc)\n",
            "src/comm/work.cc": '#include "store/memory.h"\n'})
        self.assertEqual(len(errors), 1, errors)


if __name__ == "__main__":
    unittest.main()
