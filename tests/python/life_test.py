"""The life of works, sessions and processes: what is dropped, left behind,
interrupted or forked. Each case is a program of life_programs.py, whose ranks
have to end well, in time, and without a line on stderr."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAMS = pathlib.Path(__file__).with_name("life_programs.py")


def run(name, ranks=2, limit=30, before=None, environment=None):
    """(exit status, stdout, stderr) of each rank, and the seconds. before:
    {rank: words that stand before its command}; environment: more variables."""
    begin, processes, more = time.monotonic(), [], environment or {}
    for rank in range(ranks):
        environment = dict(
            os.environ | more, DISTWRAP_RANK=str(rank), DISTWRAP_WORLD_SIZE=str(ranks),
            DISTWRAP_LOCAL_RANK=str(rank), DISTWRAP_LOCAL_WORLD_SIZE=str(ranks),
            DISTWRAP_JOB_ID=f"life-{os.getpid()}-{name}",
            PYTHONFAULTHANDLER="1")
        processes.append(subprocess.Popen(
            [*(before or {}).get(rank, ()), sys.executable, "-B",
             str(PROGRAMS), name], env=environment,
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
        results, seconds = run(name, limit=max(30, limit), **named)
        for rank, (status, _, error) in enumerate(results):
            self.assertEqual((status, error), (0, ""), f"{name}, rank {rank}")
        self.assertLess(seconds, limit, name)
        return [out for _, out, _ in results]

    def leaves_nothing(self, *names):
        """Programs whose end leaves neither a file nor a process."""
        def run_one(name):
            with tempfile.TemporaryDirectory() as folder:
                self.good(name, limit=10, environment={"TMPDIR": folder})
                self.assertEqual(os.listdir(folder), [], name)
            job = f"DISTWRAP_JOB_ID=life-{os.getpid()}-{name}".encode()
            for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
                try:
                    self.assertNotIn(job, path.read_bytes().split(b"\0"), name)
                except OSError:
                    pass  # the process has ended, or is another user's
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(run_one, names))

    def all_good(self, *names, **named):
        """Programs that mostly sleep, so they run side by side."""
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda name: self.good(name, **named), names))

    def test_works_may_be_dropped(self):
        self.good("dropped_works")

    def test_works_in_cycles_of_garbage(self):
        self.good("works_in_cycles")

    def test_calls_leave_nothing_behind(self):
        limit = 3000 if os.environ.get("LIFE_ROUNDS") else 60
        self.good("calls_leave_nothing", limit=limit)

    def test_failed_works_hold_nothing(self):
        self.good("failed_works_hold_nothing")

    def test_handles_may_go_after_the_close(self):
        self.good("handles_dropped_after_the_close")

    def test_ends(self):
        # The first waits half a second for the operations that are in flight.
        self.all_good("end_with_work_in_flight", "end_without_destroy",
                      "end_beside_a_waiting_thread", "end_in_a_thread",
                      "end_by_exit", "end_in_a_hook", "exit_in_a_thread",
                      "sys_exit_in_a_thread", limit=10)

    def test_ends_leave_nothing(self):
        self.leaves_nothing("end_with_work_in_flight", "end_without_destroy",
                            "end_in_a_thread", "end_by_exit",
                            "exit_in_a_thread", "sys_exit_in_a_thread")

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

    def interrupts(self, *names):
        """Programs that tell how long Ctrl-C took: 200 ms at most, in one of
        three runs, as other programs may hold the processors."""
        for _ in range(3):
            late = []
            for name, out in zip(names, self.all_good(*names)):
                told = re.findall(r"(\d+) ms after the signal", "".join(out))
                self.assertTrue(told, name)
                if max(map(int, told)) > 200:
                    late.append(name)
            if not late:
                return
            names = late
        self.fail(f"later than 200 ms in three runs: {late}")

    def test_interrupts(self):
        self.interrupts("interrupted_call", "interrupted_wait",
                        "interrupted_wait_with_a_limit", "interrupted_wait_all",
                        "interrupted_batch", "interrupted_hook")

    def test_interrupts_of_other_sessions(self):
        self.interrupts("interrupted_batch_beside",
                        "interrupted_work_of_a_batch_beside",
                        "interrupted_wait_any_beside",
                        "interrupted_messages_beside",
                        "interrupted_beside_a_thread", "interrupted_close")

    def test_interrupts_of_starts(self):
        self.interrupts("interrupted_new_group",
                        "interrupted_new_group_of_members",
                        "interrupted_split", "interrupted_start",
                        "interrupted_start_without_a_store",
                        "interrupted_start_of_threads", "interrupted_stores",
                        "interrupted_start_while_others_wait")

    def test_an_interrupt_at_the_last_moment_of_a_start(self):
        self.good("interrupted_at_the_last_moment")

    def test_a_killed_rank_is_named(self):
        results, _ = run("killed_rank", ranks=3)
        self.assertEqual(results[1], (-signal.SIGKILL, "", ""))
        for status, out, error in (results[0], results[2]):
            self.assertEqual((status, error), (0, ""))
            self.assertLess(float(out), 1)

    def test_launchers_of_mpi(self):
        """Open MPI and MPICH give the ranks; `distwrap run` and the bare
        variables do so in all other tests."""
        free = {name: value for name, value in os.environ.items()
                if not name.startswith("DISTWRAP_")}
        launchers = [one for one in (
            ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
            ["mpiexec.mpich"]) if shutil.which(one[0]) is not None]
        if not launchers:
            self.skipTest("no launcher of MPI")
        for launcher in launchers:
            done = subprocess.run(
                [*launcher, "-n", "3", sys.executable, "-B", str(PROGRAMS),
                 "sum_of_ranks"],
                env=free | {"DISTWRAP_BACKEND": os.environ["DISTWRAP_BACKEND"]},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            # Lines of several ranks may run into each other.
            self.assertEqual(sorted(re.findall(r"\d of 3: 6", done.stdout)),
                             [f"{rank} of 3: 6" for rank in range(3)])

    def test_shm_between_hosts(self):
        """A network namespace of its own makes a rank another host's."""
        elsewhere = ["unshare", "--net"]
        if subprocess.run([*elsewhere, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no network namespaces")
        self.good("shm_between_hosts", before={1: elsewhere})

    def test_handlers_of_the_program_stay(self):
        self.good("handlers_stay")

    def test_threads_at_once(self):
        self.good("threads_at_once")


if __name__ == "__main__":
    unittest.main()
