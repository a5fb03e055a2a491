#!/usr/bin/env python3
"""Tests made_docs.py on small trees."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import made_docs

GOOD = "# T\n\n<!-- made by: distwrap a 'b c' -->\n\na|b c\n\n<!-- end -->\nrest\n"


class MadeDocsTest(unittest.TestCase):

    def check(self, text, *more, script="printf '%s|%s\\n' \"$@\""):
        """Exit code, output and document after a run."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            document = root / "docs/page.md"
            document.write_text(text)
            program = root / "distwrap"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = made_docs.main(["--root", folder, "--distwrap",
                                       str(program), *more])
            return code, output.getvalue(), document.read_text()

    def test_equal_parts_are_good(self):
        code, output, _ = self.check(GOOD)
        self.assertEqual(code, 0, output)
        self.assertIn("1 parts, 0 errors", output)

    def test_other_parts_are_errors(self):
        code, output, text = self.check(GOOD.replace("a|b", "a|x"))
        self.assertEqual(code, 1)
        self.assertIn("docs/page.md: not what", output)
        self.assertIn("a|x", text)

    def test_write_makes_them_anew(self):
        code, _, text = self.check(GOOD.replace("a|b c", "old\nolder"),
                                   "--write")
        self.assertEqual(code, 0)
        self.assertEqual(text, GOOD)

    def test_several_parts(self):
        code, output, _ = self.check(GOOD + GOOD)
        self.assertEqual(code, 0)
        self.assertIn("2 parts", output)

    def test_a_part_without_end(self):
        code, output, _ = self.check(GOOD.replace("<!-- end -->\n", ""))
        self.assertEqual(code, 1)
        self.assertIn("no <!-- end -->", output)

    def test_a_command_that_fails(self):
        code, output, _ = self.check(GOOD, script="echo no such >&2; exit 2")
        self.assertEqual(code, 1)
        self.assertIn("ended with 2: no such", output)

    def test_every_error_has_a_page_and_no_other_page_is_there(self):
        script = """[ "$2" = --errors ] || exec printf '%s|%s\\n' "$3" page
printf '{"errors": [{"page": "DW-1"}, {"page": "DW-2"}]}'"""
        with tempfile.TemporaryDirectory() as folder:
            pages = pathlib.Path(folder, "docs/errors")
            pages.mkdir(parents=True)
            (pages / "DW-9.md").write_text("# an old one\n")
            program = pathlib.Path(folder, "distwrap")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)

            def run(*more):
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    code = made_docs.main(["--root", folder, "--distwrap",
                                           str(program), *more])
                return code, output.getvalue()

            code, output = run()
            self.assertEqual(code, 1)
            self.assertIn("docs/errors/DW-1.md is not there", output)
            self.assertIn("docs/errors/DW-9.md is about no error", output)
            self.assertEqual(run("--write")[0], 1)  # DW-9 is no error
            (pages / "DW-9.md").unlink()
            self.assertEqual(run()[0], 0)
            self.assertIn("DW-2|page", (pages / "DW-2.md").read_text())
            (pages / "DW-2.md").unlink()
            self.assertEqual(run()[0], 1)

    def test_nothing_made_is_an_error(self):
        self.assertEqual(self.check("# T\n")[0], 1)


if __name__ == "__main__":
    unittest.main()
