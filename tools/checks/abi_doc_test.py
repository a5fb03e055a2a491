#!/usr/bin/env python3
"""Tests abi_doc.py on a small tree that it must accept, and on faults in it."""

import pathlib
import tempfile
import unittest

import abi_doc

HEADER = """
#define DW_FLAG_A 0x1u
#define DW_STATIC_ASSERT(x) static_assert(x)
typedef struct dw_op { int kind; } dw_op;
struct dw_backend_api {
  int32_t (*submit)(dw_comm* comm);
  dw_reduce_fn (*kernel)(void* self);
};
"""
PAGE = "`dw_op` has `DW_FLAG_A`, `DW_OP_SEND`; `dw_backend_api`: `submit`, `kernel`"


class AbiDocTest(unittest.TestCase):
    def compare(self, page, header=HEADER):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (
                    (abi_doc.PAGE, page),
                    (abi_doc.HEADERS + "/types.h", header),
                    (abi_doc.HEADERS + "/ops.def",
                     "DW_OP(11, SEND, kSend, send)\n")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return abi_doc.compare(root)

    def test_whole_page(self):
        self.assertEqual(self.compare(PAGE), [])

    def test_each_name_is_needed(self):
        for name in ("dw_op", "DW_FLAG_A", "DW_OP_SEND", "submit", "kernel"):
            wrong = self.compare(PAGE.replace(f"`{name}`", ""))
            self.assertEqual(len(wrong), 1, name)
            self.assertIn(name, wrong[0])

    def test_unknown_name(self):
        self.assertIn("DW_FLAG_B", self.compare(PAGE + " `DW_FLAG_B`")[0])

    def test_new_slot(self):
        grown = HEADER.replace("};", "  void (*arm)(void);\n};")
        self.assertIn("arm", self.compare(PAGE, grown)[0])


if __name__ == "__main__":
    unittest.main()
