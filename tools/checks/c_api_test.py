#!/usr/bin/env python3
"""Tests of c_api.py."""

import unittest

import c_api

HEADER = """/* DISTWRAP_EXPORT int32_t distwrap_not_this(void); */
DISTWRAP_EXPORT int32_t
distwrap_one(const distwrap_tensor* out, void (*release)(void* owner),
             distwrap_error* error);
/* = MPI_Wait */
DISTWRAP_EXPORT const char* distwrap_two(distwrap_error error);
"""
MAP = """/* distwrap_nobody; */
DISTWRAP_0.1 {
  global:
    distwrap_one;
};
DISTWRAP_0.2 {
  global:
    distwrap_two;
} DISTWRAP_0.1;
"""


class CApi(unittest.TestCase):
    def test_functions_of_a_header(self):
        self.assertEqual(c_api.functions(HEADER), {"one", "two"})

    def test_names_of_a_version_script(self):
        self.assertEqual(c_api.mapped(MAP),
                         {"one": "DISTWRAP_0.1", "two": "DISTWRAP_0.2"})

    def test_difference_names_both_sides(self):
        self.assertEqual(c_api.difference("map", {"a", "b"}, {"b", "c"}),
                         ["map lacks a", "map has c on its own"])

    def test_calls_of_the_facade(self):
        self.assertEqual(
            c_api.CALL.findall("DISTWRAP_EXPORT absl::StatusOr<Work> barrier("
                               "\n    const OpOptions& options);\n"),
            ["barrier"])

    def test_the_tree_is_right(self):
        self.assertEqual(c_api.names(None)[0], [])


if __name__ == "__main__":
    unittest.main()
