#!/usr/bin/env python3
"""Tests floors.py on rows whose verdicts are known."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import floors


def row(peer, times, op="all_reduce", size=1024, limit=0.01, ranks=2):
    return {"peer": peer, "op": op, "ranks": ranks, "dtype": "float32",
            "bytes": size, "lat_us_p50": times[len(times) // 2],
            "limit_us": limit, "rounds_lat_us_p50": times}


class Floors(unittest.TestCase):
    def judged(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "run.json")
            with open(name, "w", encoding="utf-8") as file:
                json.dump({"rows": rows}, file)
            return [floors.judge(key, peers)
                    for key, peers in floors.cells([name]).items()]

    def test_the_better_mpi_of_each_round_counts(self):
        (cell,) = self.judged(row("distwrap/shm", [1.0] * 20),
                              row("openmpi", [2.0, 4.0] * 10),
                              row("mpich", [4.0, 2.0] * 10))
        self.assertEqual(cell["mpi"]["ratio"], 0.5)
        self.assertTrue(cell["met"])

    def test_the_upper_end_of_the_interval_decides(self):
        (cell,) = self.judged(row("distwrap/shm", [1.0] * 12 + [1.6] * 8),
                              row("openmpi", [2.0] * 20))
        self.assertEqual(cell["mpi"]["ratio"], 0.5)
        self.assertEqual(cell["mpi"]["high"], 0.8)
        self.assertFalse(cell["met"])

    def test_what_is_near_the_limit_is_met(self):
        (cell,) = self.judged(row("distwrap/shm", [3.0] * 20, limit=2.5),
                              row("openmpi", [2.0] * 20))
        self.assertTrue(cell["met"])
        self.assertTrue(cell["near"])

    def test_the_limit_of_a_small_call_has_the_facade_in_it(self):
        for us, met in ((0.082, True), (0.084, False)):
            (cell,) = self.judged(row("distwrap/shm", [us] * 20, limit=0.04),
                                  row("openmpi", [0.05] * 20))
            self.assertEqual(cell["met"], met, us)

    def test_counts_of_pairs_have_a_floor(self):
        for us, met in ((0.7, True), (0.72, False)):
            (cell,) = self.judged(row("distwrap/shm", [us] * 20, "alltoallv"),
                                  row("openmpi", [1.0] * 20, "alltoallv"))
            self.assertEqual(cell["met"], met, us)

    def test_gloo_has_a_floor_of_its_own(self):
        slow = self.judged(row("distwrap/shm", [1.0] * 20),
                           row("raw_gloo", [99.0] * 20))
        fast = self.judged(row("distwrap/shm", [1.0] * 20),
                           row("raw_gloo", [101.0] * 20))
        self.assertFalse(slow[0]["met"])
        self.assertTrue(fast[0]["met"])

    def test_floors_follow_operation_size_and_ranks(self):
        self.assertEqual(floors.floors_of("broadcast", 8, 2)[0], 1.0)
        self.assertEqual(floors.floors_of("broadcast", 64, 2)[0], 0.7)
        self.assertEqual(floors.floors_of("gather", 65536, 2)[0], 0.65)
        self.assertEqual(floors.floors_of("all_reduce", 8 << 20, 2),
                         (0.6, 1 / 4))
        self.assertEqual(floors.floors_of("all_gather", 8 << 20, 2),
                         (0.75, 1 / 2))
        self.assertEqual(floors.floors_of("send_recv", 8, 2), (0.8, None))
        self.assertEqual(floors.floors_of("all_reduce", 8, 4), (0.7, 1 / 4))

    def test_files_that_are_none_are_named(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(
                SystemExit) as ended:
            floors.main(["/proc/none.json"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("/proc/none.json", said.getvalue())


if __name__ == "__main__":
    unittest.main()
