#!/usr/bin/env python3
"""Tests docs.py on small trees."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import docs

CODE = "// Says hello.\nint main() {}\n"


def readme(mark, language, text):
    return f"# Title\n\n{mark}\n\n```{language}\n{text}```\n"


class DocsTest(unittest.TestCase):

    def check(self, text, run=False, part="", python=""):
        """Exit code and output for a tree with this README, and a part's."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs/more.md").write_text("[up](../README.md)\n")
            (root / "hello.cc").write_text(CODE)
            (root / "README.md").write_text(text)
            (root / "tests/a").mkdir(parents=True)
            (root / "tests/a/README.md").write_text(part)
            arguments = ["--root", folder]
            if run:
                arguments += ["--run", folder]
            if python:
                arguments += ["--python", python]
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = docs.main(arguments)
        return code, output.getvalue()

    def assert_good(self, text, **options):
        code, output = self.check(text, **options)
        self.assertEqual(code, 0, output)

    def assert_bad(self, expected, text, **options):
        code, output = self.check(text, **options)
        self.assertEqual(code, 1, output)
        self.assertIn(expected, output)

    def test_equal_file(self):
        self.assert_good(readme("<!-- file: hello.cc -->", "cpp", CODE))
        self.assert_good(readme("<!-- file: hello.cc lines: 1 -->", "cpp",
                                CODE))

    def test_different_file(self):
        self.assert_bad("README.md:5: differs from hello.cc",
                        readme("<!-- file: hello.cc -->", "cpp", CODE + "x\n"))

    def test_too_long_file(self):
        self.assert_bad("1 lines of code, at most 0",
                        readme("<!-- file: hello.cc lines: 0 -->", "cpp",
                               CODE))

    def test_missing_file(self):
        self.assert_bad("there is no file other.cc",
                        readme("<!-- file: other.cc -->", "cpp", CODE))

    def test_unmarked_block(self):
        self.assert_bad("say above the block", readme("", "sh", "true\n"))
        self.assert_good(readme("", "", "a picture\n"))

    def test_a_mark_serves_one_block(self):
        twice = readme("<!-- run -->", "sh", "true\n") + "\n```sh\nfalse\n```\n"
        self.assert_bad("say above the block", twice)
        apart = "<!-- run -->\n\nWords.\n\n```sh\ntrue\n```\n"
        self.assert_bad("say above the block", apart)

    def test_python_blocks_need_an_interpreter(self):
        # Without one they are skipped, with their output; something must run.
        text = ("<!-- run: python -->\n```sh\npython3 nosuch\n```\n"
                "<!-- output -->\n```text\n1\n```\n"
                "<!-- run -->\n```sh\ntrue\n```\n")
        self.assert_good(text, run=True)
        good = text.replace("nosuch", "-c 'print(1)'")
        self.assert_good(good, run=True, python=sys.executable)
        self.assert_bad("ended with", text, run=True, python=sys.executable)
        self.assert_bad("python where the mark says so",
                        readme("<!-- run -->", "python", "x\n"))
        self.assert_bad("write <!-- run -->",
                        readme("<!-- run: perl -->", "sh", "true\n"))

    def test_reason_is_needed(self):
        self.assert_bad("needs the reason",
                        readme("<!-- shown: -->", "sh", "true\n"))
        self.assert_good(readme("<!-- shown: slow -->", "sh", "true\n"))

    def test_run(self):
        self.assert_good(readme("<!-- run -->", "sh", "test -d build/dev\n"),
                         run=True)
        self.assert_bad("ended with 1",
                        readme("<!-- run -->", "sh", "false\ntrue\n"), run=True)
        self.assert_bad("only sh blocks are run",
                        readme("<!-- run -->", "cpp", CODE), run=True)

    def test_output(self):
        text = readme("<!-- run -->", "sh", "echo b; echo a\n")
        shown = "\n<!-- output -->\n\n```\n{}```\n"
        self.assert_good(text + shown.format("a\nb\n"), run=True)
        self.assert_bad("prints something else",
                        text + shown.format("a\n"), run=True)
        self.assert_bad("prints something else",
                        text + 2 * shown.format("a\nb\n"), run=True)

    def test_nothing_to_run_is_an_error(self):
        code, output = self.check("# Title\n", run=True)
        self.assertEqual(code, 1, output)

    def test_open_block(self):
        self.assert_bad("the block does not end", "```\nline\n")

    def test_dead_link(self):
        self.assert_bad("leads nowhere", "[a](docs/none.md#x)\n")
        self.assert_good("[a](docs/more.md) [b](https://example.org/x)\n")

    def test_readme_of_a_part(self):
        self.assert_bad("tests/a/README.md: the link to b leads nowhere", "x\n",
                        part="[b](b)\n")
        self.assert_good("x\n", part="[a](README.md)\n```sh\ntrue\n```\n")

    def test_dead_path(self):
        self.assert_bad("README.md: there is no src/none.h",
                        "see `src/none.h`\n")
        self.assert_bad("there is no tests/none.py",
                        "run `tests/none.py --all`\n")
        self.assert_good("`docs/more.md`, `docs/`, `docs/*.md`, `lib/none.h`\n")
        self.assert_good("<!-- shown: a build -->\n```sh\n`src/none`\n```\n")


if __name__ == "__main__":
    unittest.main()
