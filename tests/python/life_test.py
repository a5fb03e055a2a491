"""The life of works, sessions and processes: what is dropped, left behind,
interrupted or forked. Each case is a program of life_programs.py, whose ranks
have to end well, in time, and without a line on stderr."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time
import unittest

PROGRAMS = pathlib.Path(__file__).with_name("life_programs.py")


def run(name, ranks=2, limit=30):
    """(exit status, stdout, stderr) of each rank, and the seconds."""
    begin, processes = time.monotonic(), []
    for rank in range(ranks):
        environment = dict(
            os.environ, DISTWRAP_RANK=str(rank), DISTWRAP_WORLD_SIZE=str(ranks),
            DISTWRAP_LOCAL_RANK=str(rank), DISTWRAP_LOCAL_WORLD_SIZE=str(ranks),
            DISTWRAP_JOB_ID=f"life-{os.getpid()}-{name}",
            PYTHONFAULTHANDLER="1")
        processes.append(subprocess.Popen(
            [sys.executable, "-B", str(PROGRAMS), name], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True))
    results = []
    try:
        for process in processes:
            out, error = process.communicate(
                timeout=max(0.1, begin + limit - time.monotonic()))
            results.append((process.returncode, out, error))
    except subprocess.TimeoutExpired as expired:
        for process in processes:
            process.kill()
        told = [process.communicate() for process in processes]
        raise AssertionError(f"{name} did not end: {told}") from expired
    return results, time.monotonic() - begin


class Life(unittest.TestCase):
    def good(self, name, limit=30, **named):
        """The ranks' output; fails when a rank does or says something."""
        results, seconds = run(name, **named)
        for rank, (status, _, error) in enumerate(results):
            self.assertEqual((status, error), (0, ""), f"{name}, rank {rank}")
        self.assertLess(seconds, limit, name)
        return [out for _, out, _ in results]

    def all_good(self, *names, **named):
        """Programs that mostly sleep, so they run side by side."""
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda name: self.good(name, **named), names))

    def test_works_may_be_dropped(self):
        self.good("dropped_works")

    def test_works_in_cycles_of_garbage(self):
        self.good("works_in_cycles")

    def test_calls_leave_nothing_behind(self):
        self.good("calls_leave_nothing", limit=60)

    def test_failed_works_hold_nothing(self):
        self.good("failed_works_hold_nothing")

    def test_ends(self):
        # The first waits half a second for the operations that are in flight.
        self.all_good("end_with_work_in_flight", "end_without_destroy",
                      "end_beside_a_waiting_thread", "end_in_a_thread",
                      "end_by_exit", limit=10)

    def test_end_after_an_exception(self):
        results, seconds = run("end_after_an_exception")
        for status, out, error in results:
            self.assertEqual((status, out), (1, ""))
            self.assertTrue(error.startswith("Traceback"), error)
            self.assertTrue(error.endswith("KeyError: 'meant'\n"), error)
        self.assertLess(seconds, 8)

    def test_a_finalizer_at_the_end_is_refused(self):
        for out in self.good("end_with_objects_in_globals"):
            self.assertIn(out, ("DistAssertionError\n", "DistRuntimeError\n"))

    def test_the_child_of_a_fork_is_told(self):
        self.good("forks")

    def test_interrupts(self):
        for out in self.all_good(
                "interrupted_call", "interrupted_wait",
                "interrupted_wait_with_a_limit", "interrupted_wait_all",
                "interrupted_batch"):
            self.assertIn("ms after the signal", out[0])

    def test_interrupts_of_starts(self):
        for out in self.all_good(
                "interrupted_new_group", "interrupted_split",
                "interrupted_start", "interrupted_start_without_a_store",
                "interrupted_start_of_threads",
                "interrupted_start_while_others_wait"):
            self.assertIn("ms after the signal", "".join(out))

    def test_handlers_of_the_program_stay(self):
        self.good("handlers_stay")

    def test_threads_at_once(self):
        self.good("threads_at_once")


if __name__ == "__main__":
    unittest.main()
