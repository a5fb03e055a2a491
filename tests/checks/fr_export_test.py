#!/usr/bin/env python3
"""Converts recordings, and reads the result as PyTorch's loader does."""

import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "fr_export.py"


def recording(rank, operations, job="job", time_ns=1000):
    return {
        "format": "distwrap recording", "version": 1, "job": job, "rank": rank,
        "world_size": 2, "host": "here", "pid": 1, "cause": "signal",
        "time_ns": time_ns, "overwritten": 0,
        "groups": [{"group": 0, "uid": "00ff", "name": "world",
                    "backend": "gloo", "rank": rank, "size": 2,
                    "ranks": [0, 1]}],
        "operations": operations}


DONE = {"number": 1, "group": 0, "op": "all_reduce", "seq": 1, "dtype": "f32",
        "reduce": "sum", "in": 256, "out": 256, "label": "gradients",
        "submitted_ns": 10, "started_ns": 20, "ended_ns": 2_000_020,
        "state": "done"}
OPEN = {"number": 2, "group": 0, "op": "broadcast", "seq": 2, "root": 1,
        "dtype": "bf16", "in": 0, "out": 3, "submitted_ns": 30,
        "state": "queued"}
SENT = {"number": 3, "group": 0, "op": "send", "tag": 7, "peer": 1,
        "dtype": "u8", "in": 5, "out": 0, "submitted_ns": 40,
        "started_ns": 40, "state": "running"}
# The operation's group has a line that was used again.
ORPHAN = dict(DONE, group=9)


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "in").mkdir()

    def put(self, name, content):
        (self.root / "in" / name).write_text(
            content if isinstance(content, str) else json.dumps(content),
            encoding="utf-8")

    def export(self):
        return subprocess.run(
            [sys.executable, "-B", SCRIPT, self.root / "in", self.root / "out"],
            capture_output=True, text=True, check=False)

    def load(self, rank):
        with open(self.root / "out" / f"rank_{rank}", "rb") as file:
            return pickle.load(file)

    def test_entries(self):
        self.put("rank-0.json", recording(0, [DONE, OPEN, SENT, ORPHAN]))
        self.put("rank-1.json", recording(1, []))
        result = self.export()
        self.assertEqual(result.returncode, 0, result.stderr)
        dump = self.load(0)
        self.assertEqual(dump["pg_config"]["00ff"]["ranks"], "[0, 1]")
        self.assertEqual(dump["pg_status"]["00ff"],
                         {"last_enqueued_collective": 2,
                          "last_started_collective": 1,
                          "last_completed_collective": 1})
        done, waiting, sent = dump["entries"]
        self.assertEqual(done["profiling_name"], "gloo:all_reduce")
        self.assertEqual(done["state"], "completed")
        self.assertEqual(done["duration_ms"], 2)
        self.assertEqual(done["input_sizes"], [[256]])
        self.assertEqual(done["input_dtypes"], ["Float"])
        self.assertEqual(done["frames"][0]["name"], "gradients")
        self.assertEqual(waiting["state"], "scheduled")
        self.assertEqual(waiting["output_dtypes"], ["BFloat16"])
        self.assertEqual(waiting["input_sizes"], [])
        self.assertTrue(sent["is_p2p"])
        self.assertEqual(sent["profiling_name"], "gloo:send 0->1")
        self.assertEqual(sent["p2p_seq_id"], 1)
        self.assertEqual(self.load(1)["entries"], [])

    def test_what_cannot_be_read_is_named_and_left_out(self):
        self.put("rank-0.json", recording(0, [DONE]))
        self.put("rank-1.json", "{")
        self.put("rank-2.json", {"format": "another"})
        self.put("rank-3.json", recording(3, [], job="older", time_ns=1))
        result = self.export()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rank-1.json", result.stderr)
        self.assertIn("rank-2.json", result.stderr)
        self.assertEqual(sorted(path.name for path in
                                (self.root / "out").iterdir()), ["rank_0"])

    def test_nothing_to_read(self):
        result = self.export()
        self.assertEqual(result.returncode, 1)
        self.assertIn("no recordings", result.stderr)


if __name__ == "__main__":
    unittest.main()
