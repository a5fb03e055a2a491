#!/usr/bin/env python3
"""Tests grade.py: an error that lacks something does not get its mark."""

import copy
import unittest

import grade

TEXT = ('all_reduce #2 on "world" (rank 0 of 3): kTimedOut: not all ranks took '
        "part in time; rank 1; rank 1 (process 4711 on hosta) is in barrier "
        "#1; after 400ms (limit 400ms: DISTWRAP_TIMEOUT). Next: look for the "
        "rank, page DW-0060")
RECORD = {
    "fault": "missing_rank",
    "error": {
        "ok": False, "text": TEXT, "reason": "kTimedOut", "page": "DW-0060",
        "what": "not all ranks took part in time", "op": "all_reduce",
        "group": "world", "seq": 2, "my_rank": 0, "group_size": 3,
        "ranks": [1], "elapsed": 0.4, "limit": 0.4,
        "setting": "DISTWRAP_TIMEOUT", "next_step": "look for the rank",
        "seen": [{"rank": 1, "pid": 4711, "host": "hosta"}]},
    "expected": {
        "reason": "kTimedOut", "what": ["in time"], "next": "rank",
        "where": {"op": "all_reduce", "group": "world", "rank": 0,
                  "numbered": True},
        "who": {"ranks": [1], "pids": [4711], "seen": True},
        "how_long": {"limit": 0.4, "setting": "DISTWRAP_TIMEOUT",
                     "has_passed": True}}}


class GradeTest(unittest.TestCase):

    def marks_lost(self, text=TEXT, **fields):
        record = copy.deepcopy(RECORD)
        record["error"].update(fields, text=text)
        return [mark for mark, problems in grade.grade(record).items()
                if problems]

    def test_full_marks(self):
        self.assertEqual(self.marks_lost(), [])

    def test_each_field_counts(self):
        for mark, fields in (("what", {"reason": "kAborted"}),
                             ("where", {"op": "barrier"}),
                             ("where", {"group": ""}),
                             ("where", {"my_rank": 2}),
                             ("where", {"seq": 0}),
                             ("who", {"ranks": [2]}),
                             ("who", {"ranks": []}),
                             ("who", {"seen": []}),
                             ("how_long", {"limit": 0}),
                             ("how_long", {"elapsed": 0}),
                             ("how_long", {"elapsed": 99}),
                             ("how_long", {"setting": ""}),
                             ("next", {"next_step": ""}),
                             ("next", {"page": "DW-9999"})):
            self.assertIn(mark, self.marks_lost(**fields), fields)

    def test_what_is_only_in_the_fields_is_not_said(self):
        for mark, words in (("what", "in time"), ("where", "#2"),
                            ("where", "rank 0 of 3"), ("who", "process 4711"),
                            ("who", "on hosta"), ("how_long", "; after"),
                            ("how_long", "DISTWRAP_TIMEOUT"),
                            ("next", "look for"), ("next", "DW-0060")):
            self.assertIn(mark, self.marks_lost(TEXT.replace(words, "")), words)

    def test_it_is_one_readable_line(self):
        self.assertIn("what", self.marks_lost(TEXT + "\n"))
        self.assertIn("what", self.marks_lost(TEXT + "x" * 1000))

    def test_no_error_is_no_mark(self):
        self.assertEqual(self.marks_lost(ok=True), ["what"])

    def test_examples_are_the_same_but_for_chance(self):
        other = TEXT.replace("4711", "815").replace("hosta", "b").replace(
            "400ms (", "1m2s (").replace("is in barrier", "has come out of it")
        self.assertEqual(grade.masked(TEXT), grade.masked(other))
        self.assertNotEqual(grade.masked(TEXT),
                            grade.masked(TEXT.replace("took part", "came")))
        self.assertEqual(
            grade.anywhere("no /home/me/x/lib/distwrap/plugins, /tmp/faults_ab/"
                           "store (process 1 on vm)"),
            "no /usr/lib/distwrap/plugins, /tmp/store (process 1 on hosta)")


if __name__ == "__main__":
    unittest.main()
