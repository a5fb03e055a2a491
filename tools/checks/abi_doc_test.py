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

    def thaw(self, header, name="types.h", frozen=HEADER):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in ((abi_doc.HEADERS, header),
                               (abi_doc.FROZEN, frozen)):
                (root / path).mkdir(parents=True)
                (root / path / name).write_text(text)
            return abi_doc.thaw(root)

    def test_the_frozen_version(self):
        self.assertEqual(self.thaw(HEADER), [])

    def test_a_changed_comment_of_the_frozen_version(self):
        frozen = HEADER + "/* returns at once */\n"
        wrong = self.thaw(HEADER + "/* may wait */\n", frozen=frozen)
        self.assertEqual(len(wrong), 1)
        self.assertIn("returns at once", wrong[0])

    def test_an_addition_says_since_when(self):
        row = "#define DW_FLAG_B 0x2u"
        self.assertEqual(len(self.thaw(HEADER + row + "\n")), 1)
        self.assertEqual(self.thaw(f"{HEADER}{row} /* since 1.1 */\n"), [])

    def test_reasons_need_no_minor(self):
        self.assertEqual(self.thaw("old\nnew\n", "reasons.def", "old\n"), [])

    def test_the_minor_itself_grows(self):
        minor = "#define DW_ABI_MINOR "
        self.assertEqual(self.thaw(minor + "1\n", frozen=minor + "0\n"), [])


if __name__ == "__main__":
    unittest.main()
