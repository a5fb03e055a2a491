#!/usr/bin/env python3
"""PyTorch's own analyser on what fr_export writes.

Of the long set. TORCH_PYTHON is an interpreter that has PyTorch 2.9 or later;
without it, and without PyTorch in this one, the test is skipped (exit code 77).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fr_export_test import DONE, SCRIPT, recording  # noqa: E402

PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
ANALYSER = [PYTHON, "-m", "torch.distributed.flight_recorder.fr_trace"]


def done(seq, **more):
    return dict(DONE, number=seq, seq=seq, submitted_ns=seq * 1000,
                started_ns=seq * 1000 + 5, ended_ns=seq * 1000 + 50, **more)


def running(seq, **more):
    operation = dict(done(seq), state="running", **more)
    del operation["ended_ns"]
    return operation


class Analyser(unittest.TestCase):
    def findings(self, first, second):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "in").mkdir()
            for rank, operations in enumerate((first, second)):
                (root / "in" / f"rank-{rank}.json").write_text(
                    json.dumps(recording(rank, operations)), encoding="utf-8")
            subprocess.run([sys.executable, "-B", SCRIPT, root / "in",
                            root / "out"], check=True)
            result = subprocess.run(
                [*ANALYSER, root / "out", "--prefix", "rank_"],
                capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout + result.stderr

    def test_a_rank_that_did_not_come(self):
        text = self.findings([done(1), done(2), running(3)],
                             [done(1), done(2)])
        self.assertIn("Not all ranks joining collective, sequence number: 3",
                      text)
        self.assertIn("missing ranks: {1}", text)
        self.assertIn("world", text)
        self.assertIn("gradients", text)

    def test_a_rank_that_differs(self):
        text = self.findings([done(1), running(2)],
                             [done(1), running(2, **{"in": 512, "out": 512})])
        self.assertIn("Collective sequence number: 2 has errors", text)
        self.assertIn("Culprit rank 1", text)

    def test_nothing_wrong(self):
        text = self.findings([done(1)], [done(1)])
        self.assertNotIn("errors", text)
        self.assertNotIn("missing ranks", text)


if __name__ == "__main__":
    if subprocess.run([*ANALYSER, "--help"], capture_output=True,
                      check=False).returncode != 0:
        print(f"skipped: {PYTHON} (or TORCH_PYTHON) has no analyser of PyTorch")
        sys.exit(77)
    unittest.main()
