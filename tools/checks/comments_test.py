#!/usr/bin/env python3
"""Tests comments.py on small trees."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import comments


class CommentsTest(unittest.TestCase):

    def check(self, files):
        """Exit code and printed lines for a tree with these files."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = comments.main(["--root", folder])
        return code, output.getvalue().splitlines()

    def assert_good(self, name, text):
        code, lines = self.check({name: text})
        self.assertEqual(code, 0, lines)
        self.assertEqual(len(lines), 1, lines)

    def assert_bad(self, expected, name, text):
        code, lines = self.check({name: text})
        self.assertEqual(code, 1, lines)
        self.assertIn(expected, lines)

    def test_line_comment(self):
        self.assert_bad("src/base/a.h:2: Of a lost peer.", "src/base/a.h",
                        "int a;\n// Of a lost peer.\n")
        self.assert_bad("src/base/a.cc:1: Whoever waits.", "src/base/a.cc",
                        "/// Whoever waits.\n")
        self.assert_good("src/base/a.h", "// A waiter of a lost peer.\n")

    def test_block_comment(self):
        self.assert_bad("tests/a.c:1: The same.", "tests/a.c",
                        "/* The same. */\n")
        self.assert_bad("tests/a.c:1: Likewise, as", "tests/a.c",
                        "/** Likewise, as\n * above. */\n")
        self.assert_good("tests/a.c", "/* Sums\n * of all ranks. */\n")

    def test_trailing_comment(self):
        self.assert_bad("include/a.h:1: of the group", "include/a.h",
                        "int rank;  // of the group\n")
        self.assert_bad("include/a.h:2: likewise", "include/a.h",
                        "int rank;  // of members\nint b;  // likewise\n")
        self.assert_good("include/a.h", "int rank;  // the group's\n")

    def test_only_the_first_line_of_a_block(self):
        self.assert_good("src/a.h", "// The number\n// of ranks.\n")
        self.assert_bad("src/a.h:3: Of ranks.", "src/a.h",
                        "// The number.\n\n// Of ranks.\n")
        self.assert_good("src/a.h",
                         "int a;  // The number\n        // of ranks.\n")

    def test_words_that_only_begin_alike(self):
        self.assert_good("src/a.h", "// Office, order, items.\n")
        self.assert_good("src/a.h", "// both_ranks is set.\n")

    def test_strings_are_no_comments(self):
        self.assert_good("src/a.cc", 'f("// of", \'"\', "// or");\n')
        self.assert_good("src/a.cc", 'f(R"(\n// of\n)", 1\'000);\n')
        self.assert_good("src/CMakeLists.txt", 'set(a "# of")\n')
        self.assert_good("tools/a.py", 'A = "# of"\n')
        self.assert_good("tools/a.sh", "echo '# of' $# a#of\n")

    def test_languages(self):
        self.assert_bad("tools/a.py:1: Of a.", "tools/a.py", "# Of a.\n")
        self.assert_bad("tools/a.py:2: What is wrong.", "tools/a.py",
                        'def f():\n  """What is wrong."""\n')
        self.assert_bad("tools/dev:2: Of a.", "tools/dev",
                        "#!/usr/bin/env bash\n# Of a.\n")
        self.assert_bad("src/CMakeLists.txt:1: Of a.", "src/CMakeLists.txt",
                        "set(a b) # Of a.\n")
        self.assert_bad("src/CMakeLists.txt:1: Of a.", "src/CMakeLists.txt",
                        "#[[ Of a. ]]\n")
        self.assert_bad("src/a.def:1: Of a.", "src/a.def", "// Of a.\n")
        self.assert_good("tests/a.txt", "# Of a.\n")

    def test_published_headers_stay_as_they_are(self):
        self.assert_good("tests/abi/v1_0/a.h", "// Of a.\n")

    def test_counts_by_folder(self):
        code, lines = self.check({"src/comm/a.h": "// Of a.\n",
                                  "src/comm/board/b.h": "// Of b.\n"})
        self.assertEqual(code, 1)
        self.assertIn("src/comm: 2", lines)


if __name__ == "__main__":
    unittest.main()
