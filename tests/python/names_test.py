"""The names of the package against its table, the C API and the tests."""

import ast
import inspect
import pathlib
import re
import subprocess
import sys
import tomllib
import types
import unittest

import numpy as np

import distwrap as dist
from distwrap import dtensor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python"))
import make_calls  # noqa: E402


def whole_table():
    with open(ROOT / "python" / "calls.toml", "rb") as file:
        calls = tomllib.load(file)
    return calls, calls.pop("types")


def table():
    """The operations, and the types of their arguments."""
    calls, kinds = whole_table()
    return make_calls.operations(calls), kinds


def c_functions():
    text = (ROOT / "include" / "distwrap" / "c.h").read_text(encoding="utf-8")
    return set(re.findall(r"\bdistwrap_(\w+)\(", text))


def public_names():
    return sorted(name for name, value in vars(dist).items()
                  if not name.startswith("_")
                  and not isinstance(value, types.ModuleType))


def is_error(value):
    return isinstance(value, type) and issubclass(value, Exception)


class Names(unittest.TestCase):
    def test_the_table_has_functions_of_the_c_api(self):
        """Each that an entry names is in c.h and is called by the module, which
        calls every function of c.h but those that Python has no use for."""
        known = c_functions()
        called = set()
        for path in (ROOT / "python" / "src").glob("*"):
            called |= set(re.findall(r"\bdistwrap_(\w+)\b",
                                     path.read_text(encoding="utf-8")))
        self.assertGreater(len(known), 100)
        for name, call in whole_table()[0].items():
            if "c" in call:
                self.assertIn(call["c"], known & called, name)
        self.assertEqual(known - called, {
            # the recording of a batch, which `with batch()` does
            "batch_on",
            # tensors come by the buffer protocol and DLPack of Python
            "dlpack_of_tensor", "tensor_of_dlpack",
            # arrays hold pages, which outlive their window
            "window_memory", "window_map_remote",
            # errors are read field by field; works by test, status and outputs
            "error_text", "error_reason", "work_all", "work_result",
            "work_state",
            # data of groups are objects, which groups own
            "group_set_data",
            # groups know their parents
            "group_children",
            # the package reads and writes types of the program itself
            "register_object_type",
            # with _async they wait, too
            "alltoallv_dynamic_dispatch", "alltoallv_dynamic_combine"})

    def test_each_call_exists_as_the_table_says(self):
        for name, call in table()[0].items():
            function = getattr(dist, name)
            self.assertEqual(function.__name__, name)
            # nanobind writes the signature into the first line.
            first = function.__doc__.splitlines()[0]
            given = [argument for argument, _, _ in
                     make_calls.parameters(call["args"])]
            self.assertEqual(re.findall(r"(\w+): ", first), given, first)

    def test_docstrings_are_those_of_the_table(self):
        calls = whole_table()[0]
        for name, call in calls.items():
            found = dist
            for part in name.split("."):
                found = getattr(found, part)
            self.assertTrue(found.__doc__.strip().endswith(
                make_calls.document(call)), name)
        for name, kind in vars(dist).items():
            if getattr(kind, "__module__", "") != "distwrap._core" or (
                    name.startswith("_")):
                continue
            self.assertIn(name, calls)
            for member in vars(kind) if isinstance(kind, type) else ():
                if not member.startswith("_"):
                    self.assertIn(f"{name}.{member}", calls)

    def test_each_type_is_known(self):
        calls, kinds = table()
        for name, call in calls.items():
            for argument, _, _ in make_calls.parameters(call["args"]):
                self.assertIn(argument, kinds, name)

    def test_stubs_have_each_name_with_its_arguments(self):
        calls, kinds = table()
        base = (ROOT / "python" / "stubs.pyi").read_text(encoding="utf-8")
        stubs = {}
        for node in ast.parse(make_calls.stubs(
                whole_table()[0], kinds, base,
                ROOT / "python" / "distwrap")).body:
            if isinstance(node, ast.AnnAssign):
                stubs[node.target.id] = node
            elif hasattr(node, "name"):
                self.assertNotIn(node.name, stubs)
                stubs[node.name] = node
        self.assertEqual([name for name in public_names() + ["__version__"]
                          if name not in stubs], [])
        for name, call in calls.items():
            self.assertEqual(ast.get_docstring(stubs[name]).split(),
                             make_calls.document(call).split())
        silent = []
        for name in public_names():
            parts = [(name, stubs[name])] + [
                (f"{name}.{node.name}", node)
                for node in getattr(stubs[name], "body", ())
                if isinstance(node, ast.FunctionDef)
                and not node.name.startswith("__")]
            silent += [full for full, node in parts
                       if isinstance(node, ast.FunctionDef | ast.ClassDef)
                       and not ast.get_docstring(node)]
        self.assertEqual(silent, [])
        compared = 0
        for name in public_names():
            if isinstance(stubs[name], ast.FunctionDef):
                compared += self.compare(stubs[name], getattr(dist, name))
            elif isinstance(stubs[name], ast.ClassDef):
                compared += self.compare_class(stubs[name],
                                               getattr(dist, name))
        self.assertGreater(compared, 90)

    def test_the_stub_of_dtensor_has_what_the_module_has(self):
        text = (ROOT / "python" / "distwrap" / "dtensor.pyi").read_text(
            encoding="utf-8")
        nodes = ast.parse(text).body
        stubs = {node.name: node for node in nodes if hasattr(node, "name")}
        types_only = {node.targets[0].id for node in nodes
                      if isinstance(node, ast.Assign)}
        public = {name: value for name, value in vars(dtensor).items()
                  if not name.startswith("_")
                  and getattr(value, "__module__", "").startswith("distwrap")}
        self.assertEqual(set(stubs), set(public))
        self.assertEqual(types_only & set(public), set())
        compared = 0
        for node in nodes:  # a function may be overloaded
            if isinstance(node, ast.FunctionDef):
                compared += self.compare(node, public[node.name])
            elif isinstance(node, ast.ClassDef):
                compared += self.compare_class(node, public[node.name])
        self.assertGreater(compared, 10)
        # The documents of the compiled class, which no editor can read.
        members = {node.name: node for node in stubs["Plan"].body
                   if isinstance(node, ast.FunctionDef)}
        self.assertEqual({name for name in vars(dtensor.Plan)
                          if not name.startswith("_")},
                         {name for name in members if not name.startswith("_")})
        for name, node in [("Plan", stubs["Plan"])] + list(members.items()):
            if name == "__init__":
                self.compare(node, dtensor.Plan.__init__)
                continue
            found = dtensor.Plan if name == "Plan" else getattr(
                dtensor.Plan, name)
            self.assertTrue(" ".join(found.__doc__.split()).endswith(
                " ".join(ast.get_docstring(node).split())), name)

    def compare_class(self, stub, found):
        members = {node.name: node for node in stub.body
                   if isinstance(node, ast.FunctionDef)}
        members |= {node.target.id: node for node in stub.body
                    if isinstance(node, ast.AnnAssign)}
        own = {name for name in vars(found) if not name.startswith("_")}
        if issubclass(found, tuple | int) or is_error(found):
            return 0  # made of fields, members of an enumeration, attributes
        self.assertEqual(own - set(members), set(), found)
        return sum(self.compare(node, getattr(found, name))
                   for name, node in members.items()
                   if isinstance(node, ast.FunctionDef)
                   and not name.startswith("__") and not node.decorator_list)

    def compare(self, stub, found):
        """Whether the arguments could be compared; they have to be equal."""
        given = stub.args
        names = [one.arg for one in given.args + given.kwonlyargs]
        signature = getattr(found, "__nb_signature__", None)
        if signature is not None:
            text = signature[0][0].partition(" -> ")[0].partition("(")[2]
            self.assertEqual(re.findall(r"\w+", re.sub(
                r"(: | = )[^,)]+", "", text)), names, stub.name)
            return 1
        try:
            known = list(inspect.signature(found).parameters)
        except (TypeError, ValueError):
            return 0
        self.assertEqual(known, names, stub.name)
        return 1

    def test_arguments_have_their_names(self):
        """Every call takes all its arguments by name, on one rank."""
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        try:
            for name, call in table()[0].items():
                self.call_by_names(name, call)
        finally:
            dist.destroy_process_group()

    @staticmethod
    def values():
        """Good arguments of operations on one rank, by name."""
        x, y = np.ones(4), np.zeros(4)
        return {
            "tensor": x, "input": x, "input_tensor": x, "output": y,
            "output_tensor": y, "tensor_list": [y], "input_list": [x],
            "gather_list": [y], "scatter_list": [y], "op": dist.ReduceOp.SUM,
            "output_tensor_list": [y], "input_tensor_list": [x],
            "output_split_sizes": [4], "input_split_sizes": [4],
            "counts": [4], "group": dist.group.WORLD, "async_op": False,
            "src": 0, "dst": 0, "group_src": None, "group_dst": None, "tag": 0,
            "device_ids": None, "wait_all_ranks": True, "timeout": 10.0,
            "label": "by name",
        }

    def call_by_names(self, name, call):
        values = self.values()
        y = values["output"]
        named = {argument: values[argument] for argument, _, _ in
                 make_calls.parameters(call["args"])}
        # A message to oneself needs its other half.
        other = {"send": dist.irecv, "isend": dist.irecv, "recv": dist.isend,
                 "irecv": dist.isend}.get(name)
        work = None if other is None else other(y, 0)
        result = getattr(dist, name)(**named)
        if name.startswith("i"):
            result.wait()
        if work is not None:
            work.wait()
        # Roots as ranks of the group.
        for one in ("src", "dst"):
            if one in named and other is None:
                getattr(dist, name)(**{**named, one: None, "group_" + one: 0})

    def test_errors_of_the_table(self):
        """Each error that an entry names can be had from its call."""
        x, y = np.ones(4), np.zeros(4)

        dist.init_process_group("shm", store=dist.HashStore(), rank=0,
                                world_size=1)
        done = dist.all_reduce(x, async_op=True)
        done.wait()
        late = dist.irecv(y, 0)
        window = dist.Window(count=2)
        ended = dist.Window(count=1)
        ended.destroy()
        with dist.batch() as batch:
            dist.all_reduce(x)
            prepared = batch.prepare()
        store = dist.HashStore()
        by_argument = {
            "kReduceOp": {"op": "nosuch"}, "kWildcard": {"src": None},
            "kRootMissing": {"src": None, "dst": None},
            "kRootBoth": {"src": 0, "dst": 0, "group_src": 0, "group_dst": 0},
            "kRankNotMember": {"src": 7},
            "kSplitMismatch": {"counts": [9], "output_split_sizes": [9]}}
        by_call = {
            "Work.wait": lambda: late.wait(0.01),
            "Work.result": late.result, "Work.cancel": done.cancel,
            "PreparedOperation.start": lambda: prepared.start(y),
            "get_group_rank": lambda: dist.get_group_rank(None, 9),
            "get_global_rank": lambda: dist.get_global_rank(None, 9),
            "get_backend": lambda: dist.get_backend(device=(2, 0)),
            "parse_backend": lambda: dist.parse_backend("cpu:shm:"),
            "Store.get": lambda: store.get("none", 0.01),
            "Store.wait": lambda: store.wait(["none"], 0.01),
            "connect_store": lambda: dist.connect_store("unix:/none", 0.01),
            "encode_object": lambda: dist.encode_object(object()),
            "decode_object": lambda: dist.decode_object(b"DW"),
            "get_mem_allocator": lambda: dist.get_mem_allocator(
                dist.new_group(backend="loopback")),
            "register_mem_pool": lambda: dist.register_mem_pool(x),
            "Window.put": lambda: ended.put(np.ones(1, "f4"), 0),
            "Window.wait_signal": lambda: window.wait_signal(
                0, 9, timeout=0.01),
            "Window.fetch_add": lambda: window.fetch_add(1, 0, 5)}
        provoked = 0
        try:
            for name, call in whole_table()[0].items():
                for reason in call.get("errors", ()):
                    with self.assertRaises(dist.DistError, msg=name) as caught:
                        if "args" in call:
                            self.call_with(name, call, by_argument[reason])
                        else:
                            by_call[name]()
                    self.assertEqual(caught.exception.reason, reason, name)
                    provoked += 1
            dist.send(x, 0)
            late.wait()
        finally:
            dist.destroy_process_group()
        self.assertGreater(provoked, 40)

    def call_with(self, name, call, wrong):
        """A call with all its arguments but these right."""
        arguments = self.values()
        known = [one for one, _, _ in make_calls.parameters(call["args"])]
        getattr(dist, name)(**{
            one: wrong.get(one, arguments[one]) for one in known})

    def test_what_trainers_call(self):
        """The names that nine trainers call most, with the file that has each."""
        files = {
            "groups.cc": "get_rank get_world_size is_initialized is_available "
                         "get_backend get_global_rank get_process_group_ranks "
                         "set_timeout",
            "groups.py": "init_process_group destroy_process_group new_group "
                         "new_subgroups_by_enumeration split_group",
            "operations.cc": "all_reduce barrier broadcast all_gather reduce "
                             "all_gather_into_tensor reduce_scatter_tensor "
                             "all_to_all_single reduce_scatter gather scatter "
                             "all_to_all isend irecv send recv "
                             "monitored_barrier",
            "objects.py": "broadcast_object_list all_gather_object "
                          "gather_object scatter_object_list",
            "batch.py": "P2POp batch_isend_irecv batch",
        }
        for file, names in files.items():
            folder = "src" if file.endswith(".cc") else "distwrap"
            text = (ROOT / "python" / folder / file).read_text(encoding="utf-8")
            for name in names.split():
                found = getattr(dist, name)
                self.assertTrue(callable(found), name)
                self.assertRegex(text, rf"(def|class) {name}\b|\b{name}\(|"
                                 rf'"{name}"', file)
                if folder == "distwrap":
                    self.assertEqual(found.__module__,
                                     "distwrap." + file.removesuffix(".py"))
        # The only one that is absent has a row that says why.
        text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        self.assertFalse(hasattr(dist, "TCPStore"))
        self.assertRegex(text, r"\| `TCPStore`.*\| absent \|")

    def test_each_public_name_is_used_by_a_test(self):
        called, named = set(), set()
        for path in HERE.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    named.add(node.attr)
                if isinstance(node, ast.Call) and isinstance(node.func,
                                                             ast.Attribute):
                    called.add(node.func.attr)
                # Functions are handed to what calls them.
                if isinstance(node, ast.Call):
                    called |= {argument.attr for argument in node.args
                               if isinstance(argument, ast.Attribute)}
        called |= set(table()[0])  # by test_arguments_have_their_names
        unused = [name for name in public_names() if name not in (
            called if callable(getattr(dist, name))
            and not isinstance(getattr(dist, name), type) else named)]
        for name in public_names():
            kind = getattr(dist, name)
            if isinstance(kind, type) and not is_error(kind):
                unused += [f"{name}.{member}" for member in vars(kind)
                           if not member.startswith("_")
                           and member not in named]
        self.assertEqual(unused, [], unused)

    def test_each_public_name_says_what_it_does(self):
        silent = [name for name in public_names()
                  if callable(getattr(dist, name))
                  and not getattr(dist, name).__doc__]
        self.assertEqual(silent, [])

    def test_the_page_lists_each_public_name(self):
        text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        listed = set(re.findall(r"`(\w+)`", text[text.index(
            "## All names"):]))
        missing = [name for name in public_names()
                   if name not in listed | {"group"}]
        self.assertEqual(missing, [])

    def test_without_a_session(self):
        x = np.ones(3)
        self.assertTrue(dist.is_available())
        self.assertFalse(dist.is_initialized())
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (-1, -1))
        self.assertIsNone(dist.group.WORLD)
        for call in (lambda: dist.all_reduce(x), dist.barrier, dist.new_group,
                     lambda: dist.all_reduce(x, async_op=True),
                     lambda: dist.send(x, 0), lambda: dist.irecv(x, 0),
                     lambda: dist.split_group(split_ranks=[[0]]),
                     dist.get_backend, dist.get_process_group_ranks,
                     dist.destroy_process_group, dist.abort,
                     dist.monitored_barrier, dist.capabilities,
                     lambda: dist.batch_isend_irecv(
                         [dist.P2POp(dist.isend, x, 0)])):
            with self.assertRaises(AssertionError) as caught:
                call()
            self.assertIsInstance(caught.exception, dist.DistAssertionError)
            self.assertEqual(caught.exception.reason, "kNotInitialized")
            self.assertTrue(caught.exception.next_step)

    def test_importing_loads_neither_numpy_nor_torch(self):
        loaded = subprocess.run(
            [sys.executable, "-B", "-c", "import distwrap, sys; print("
             "sorted(m for m in ('numpy', 'torch', 'asyncio', 'pickle') "
             "if m in sys.modules))"],
            check=True, text=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(loaded, "[]\n")

    def test_importing_takes_few_modules(self):
        """Modules of the standard library that take milliseconds are imported
        where they are used."""
        program = "import sys; print(*sorted(sys.modules))"
        empty, full = (set(subprocess.run(
            [sys.executable, "-B", "-c", first + program], check=True,
            text=True, stdout=subprocess.PIPE).stdout.split())
            for first in ("", "import distwrap; "))
        others = {name for name in full - empty
                  if not name.startswith(("distwrap", "_"))}
        self.assertLessEqual(others, {
            "atexit", "collections", "contextvars", "enum", "functools",
            "itertools", "keyword", "nanobind", "operator", "reprlib", "types"})


if __name__ == "__main__":
    unittest.main()
