#!/usr/bin/env python3
"""Proves that skips.py finds what it is there for."""

import unittest

import skips

RESULTS = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="3" skipped="1">
  <testcase name="limits_test" status="run">
    <properties/>
    <system-out>[ RUN      ] All/Limits.Passes/shm
[       OK ] All/Limits.Passes/shm (1 ms)
[ RUN      ] All/Limits.OfThreads/shm
/a/limits_test.cc:117: Skipped
only root may do that

[  SKIPPED ] All/Limits.OfThreads/shm (0 ms)
[ RUN      ] Limits.SaysNothing
[  SKIPPED ] Limits.SaysNothing (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] All/Limits.OfThreads/shm
[  SKIPPED ] Limits.SaysNothing
</system-out>
  </testcase>
  <testcase name="model" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/>
    <properties/>
    <system-out>trying
skipped: no spin here
</system-out>
  </testcase>
  <testcase name="good" status="run"><system-out/></testcase>
</testsuite>
"""
LIST = """# a remark

any Limits.Of* | only root | tests may run as any user
asan tsan Limits.SaysNothing | words | a sanitizer has none
dev model | no spin | the model is the same everywhere
"""


class Skips(unittest.TestCase):

    def judge(self, preset, text=LIST):
        rows, errors = skips.read_list(text)
        self.assertEqual(errors, [])
        return skips.judge(skips.read_results(RESULTS), rows, preset)

    def test_both_kinds_of_skips_are_found(self):
        self.assertEqual(skips.read_results(RESULTS), [
            ("All/Limits.OfThreads/shm", "only root may do that"),
            ("Limits.SaysNothing", ""),
            ("model", "skipped: no spin here")])

    def test_what_is_listed_is_told_with_its_reason(self):
        lines, _ = self.judge("dev")
        self.assertEqual(lines, [
            "  only root: tests may run as any user",
            "    All/Limits.OfThreads/shm",
            "  no spin: the model is the same everywhere",
            "    model"])

    def test_what_is_not_listed_is_an_error(self):
        for preset, names in (("dev", ["Limits.SaysNothing"]),
                              ("asan", ["Limits.SaysNothing", "model"])):
            _, errors = self.judge(preset)
            self.assertEqual([error.split()[0] for error in errors], names)
        _, errors = self.judge("dev", LIST.replace("only root", "only guests"))
        self.assertEqual(len(errors), 2)

    def test_names_lose_their_parameters(self):
        for name in ("A.B", "In/A.B", "In/A.B/3", "A/0.B", "In/A/0.B/3"):
            self.assertEqual(skips.source_name(name), "A.B", name)

    def test_lines_that_cannot_be_read(self):
        for line in ("any X.Y | message", "X.Y | message | reason",
                     "other X.Y | message | reason", "any X.Y | message | ",
                     "any X.Y | | reason"):
            self.assertEqual(len(skips.read_list(line)[1]), 1, line)

    def test_a_line_of_a_test_that_is_gone(self):
        rows, _ = skips.read_list(LIST + "any runs_x | a | b\n"
                                  "any Limits.Gone | a | b\n")
        self.assertEqual(
            skips.unknown(rows, ["TEST_P(Limits, OfThreads) {}\n"
                                 "TEST(Limits, SaysNothing) {}\n"],
                          ["add_test(NAME model\n",
                           "distwrap_test(runs_${way}\n"]),
            ["there is no test Limits.Gone"])


if __name__ == "__main__":
    unittest.main()
