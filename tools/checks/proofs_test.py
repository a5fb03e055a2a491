#!/usr/bin/env python3
"""Proves that proofs.py finds what it is there for."""

import unittest

import proofs

TESTS = proofs.find_tests(["""
TEST(Calls, FailAsTheyShould) {
  EXPECT_EQ(reason, Reason::kGone);
}
TEST_P(Calls, Work) {}
constexpr Lesson kLessons[] = {
    {"G01_Inputs", check, 4},
""", "add_test(NAME layout\n  COMMAND layout.py)\n"])
GOOD = "# a remark\n\nreason kGone | gone | Calls.FailAsTheyShould\n"


class Proofs(unittest.TestCase):

    def errors(self, text, reasons=("kGone",)):
        return proofs.check(list(reasons), TESTS, text)

    def test_what_is_proved_passes(self):
        self.assertEqual(self.errors(
            GOOD + "lesson G1 | inputs | G01_Inputs Calls.Work layout\n"), [])

    def test_a_new_reason_needs_a_line(self):
        self.assertEqual(self.errors(GOOD, ("kGone", "kNew")),
                         ["reason kNew has no line"])
        self.assertEqual(self.errors(
            GOOD + "reason kNew | new | later: a thing\n",
            ("kGone", "kNew")), [])

    def test_cases_in_python_are_tests(self):
        found = proofs.find_python_tests("objects", """
def test_one():
    equal(error.reason, "kGone")


class Life(unittest.TestCase):
    def test_two(self):
        pass
""")
        self.assertEqual(set(found), {"objects.test_one", "objects.test_two"})
        for case, errors in (("one", 0), ("two", 1)):
            self.assertEqual(len(proofs.check(
                ["kGone"], found,
                f"reason kGone | gone | objects.test_{case}\n")), errors)

    def test_each_bug_needs_a_line(self):
        self.assertEqual(
            proofs.check(["kGone"], TESTS, GOOD + "bug 7 | tags | layout\n",
                         bugs=(7, 8)), ["bug 8 has no line"])

    def test_each_lesson_needs_a_line(self):
        lessons = ["G1", "G2"]
        self.assertEqual(
            proofs.check(["kGone"], TESTS, GOOD +
                         "lesson G1 | inputs | G01_Inputs\n", lessons),
            ["lesson G2 has no line"])
        self.assertEqual(
            proofs.check(["kGone"], TESTS, GOOD +
                         "lesson G1 | inputs | G01_Inputs\n"
                         "lesson G2 | tags | later: streams\n", lessons), [])
        self.assertEqual(len(proofs.all_lessons()), 75)

    def test_a_reason_that_is_none(self):
        self.assertEqual(self.errors(GOOD, ()),
                         ["reason kGone is not in reasons.def"])

    def test_a_test_that_is_not_there(self):
        self.assertEqual(self.errors(GOOD + "trap x | x | Calls.Sing\n"),
                         ["trap x: there is no test Calls.Sing"])

    def test_a_test_that_provokes_something_else(self):
        self.assertEqual(self.errors("reason kGone | gone | Calls.Work\n"),
                         ["reason kGone: Calls.Work does not name it"])

    def test_lines_that_cannot_be_read(self):
        for line in ("reason kGone", "reason | x | Calls.Work", "x y | z | ",
                     "other x | y | Calls.Work"):
            self.assertEqual(len(self.errors(GOOD + line + "\n")), 1, line)
        self.assertEqual(self.errors(GOOD + GOOD),
                         ["reason kGone is there twice"])


if __name__ == "__main__":
    unittest.main()
