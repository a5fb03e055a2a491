#!/usr/bin/env python3
"""Tests of abi_layout.py: each kind of change is found."""

import unittest

import abi_layout

HEADER = """
#define DW_KIND_A 0x1u   /* a */
#define DW_ABI_MINOR 3
#define DW_MAKE(x) x
#define DW_TEXT "DWP"
typedef struct dw_leaf { /* leaf; {1, 0} or zero */
  uint16_t a, b;
  char text[240]; /* x; y */
} dw_leaf;
struct dw_table {
  const dw_str* names;
  int32_t (*open)(const dw_host* host, dw_error* error); /* [any] */
  void* const* parts;
};
"""


class AbiLayout(unittest.TestCase):
    def test_finds_every_field(self):
        self.assertEqual(
            abi_layout.structs_of(HEADER),
            [("dw_leaf", True, ["a", "b", "text"]),
             ("dw_table", False, ["names", "open", "parts"])])

    def test_finds_frozen_numbers(self):
        self.assertEqual(abi_layout.constants_of(HEADER), ["DW_KIND_A"])

    def test_what_it_cannot_read_is_an_error(self):
        with self.assertRaises(ValueError):
            abi_layout.structs_of("struct dw_x {\n  int a : 3 + (1);\n};")

    def test_changes(self):
        was = ["dw_x a 0 4", "dw_x b 4 4", "value DW_A 1"]
        same = abi_layout.problems
        self.assertEqual(same(was, was, "same"), [])
        moved = ["dw_x a 0 4", "dw_x b 8 4", "value DW_A 1"]
        lost = was[:2]
        more = was + ["dw_x c 8 8"]
        for mode in ("same", "newer", "older"):
            self.assertEqual(len(same(was, moved, mode)), 1, mode)
        self.assertEqual(len(same(was, lost, "same")), 1)
        self.assertEqual(len(same(was, lost, "newer")), 1)
        self.assertEqual(same(was, lost, "older"), [])
        self.assertEqual(len(same(was, more, "same")), 1)
        self.assertEqual(same(was, more, "newer"), [])
        self.assertEqual(len(same(was, more, "older")), 1)
        self.assertEqual(len(same(was, ["value DW_A 2"] + was[:2], "same")), 1)


if __name__ == "__main__":
    unittest.main()
