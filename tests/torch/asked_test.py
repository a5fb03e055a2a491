"""Holds the adapter against what each minor version of PyTorch asks
(tests/golden/torch_asks.txt), without PyTorch; and refuses what is none.

  asked_test.py FOLDER   the folder of the sources: python/distwrap/torch
"""

import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SOURCES = pathlib.Path(sys.argv[1])

# The adapter leaves these methods to PyTorch's own class; the text says what that
# class does.
LEFT = {name: does for does, names in {
    "is for NCCL alone": (
        "_register_on_completion_hook", "_wait_for_pending_works",
        "_enable_collectives_timing"),
    "refuses by name": (
        "_start_time_estimate", "_end_time_estimate", "allocateTensor",
        "getMemAllocator", "memory_stats", "merge", "mergeRemoteGroup",
        "new_window", "get_reconfigure_handle", "registerAbortHook",
        "unregisterAbortHook", "resume", "suspend", "splitGroup"),
    "is false": (
        "supports_time_estimate", "_supports_time_estimate",
        "supports_reconfigure", "supports_shrinking", "supports_tensor_alloc",
        "supports_window"),
    "does what is needed": (
        "_set_group_uid", "eager_connect_single_device", "get_error", "getRank",
        "getSize", "rank", "size", "_set_group_desc", "_set_group_name"),
    "is for groups of several backends": (
        "_register_backend", "_set_default_backend"),
}.items() for name in names}


def classes():
    """class -> name -> arguments after self, or None for a property."""
    found = {}
    for file in ("_calls.py", "_backend.py", "_work.py"):
        for node in ast.parse((SOURCES / file).read_text()).body:
            if not isinstance(node, ast.ClassDef):
                continue
            names = {}
            for base in node.bases:
                names |= found.get(getattr(base, "id", ""), {})
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    is_property = any(getattr(one, "id", "") == "property"
                                      for one in item.decorator_list)
                    names[item.name] = None if is_property else item.args
                elif isinstance(item, ast.Assign):
                    for target in item.targets:
                        if getattr(item.value, "id", "") in names:
                            names[target.id] = names[item.value.id]
            found[node.name] = names
    return found


def takes(arguments, count):
    most = len(arguments.args) - 1
    return most - len(arguments.defaults) <= count <= most


def test_every_method():
    found, problems, seen = classes(), [], set()
    for line in (HERE.parent / "golden/torch_asks.txt").read_text().splitlines():
        minor, kind, rest = line.split(" ", 2)
        if kind not in ("backend", "group", "called"):
            continue
        name, _, given = rest.rstrip(")").partition("(")
        names = found["_BackendForm" if kind == "backend" else "_GroupForm"]
        if name in ("wait", "get_future"):
            names = found["Work"]
        seen.add(name)
        if name not in names:
            if name not in LEFT:
                problems.append(f"{line}: the adapter has no {name}")
            continue
        arguments = names[name]
        asked = [one for one in given.split(", ") if one]
        if kind == "called" or asked == ["property"]:
            continue
        if arguments is None or not takes(arguments, len(asked)):
            problems.append(f"{line}: takes other arguments")
    problems += [f"{name} is asked for by no version"
                 for name in LEFT if name not in seen]
    assert not problems, "\n".join(problems)
    assert len(seen) > 50, seen


def test_every_field_of_options():
    """The fields that the adapter reads exist in every version."""
    structs = {}
    for line in (HERE.parent / "golden/torch_asks.txt").read_text().splitlines():
        minor, kind, rest = line.split(" ", 2)
        if kind == "struct":
            name, _, fields = rest.partition(": ")
            structs.setdefault(name, []).append(set(fields.split()))
    assert len(structs) > 10 and all(len(one) >= 1 for one in structs.values())
    of_calls = {name: set.intersection(*versions) for name, versions in
                structs.items() if name.endswith("Options")}
    made = of_calls.pop("_DistributedBackendOptions")
    used = set(re.findall(r"\bopts\.(\w+)",
                          (SOURCES / "_calls.py").read_text()))
    assert used == {"asyncOp", "timeout", "rootRank", "reduceOp"}, used
    for name in ("AllreduceOptions", "ReduceOptions", "ReduceScatterOptions"):
        assert {"asyncOp", "timeout", "reduceOp"} <= of_calls[name], name
    for name in ("BroadcastOptions", "ReduceOptions", "GatherOptions",
                 "ScatterOptions"):
        assert {"asyncOp", "timeout", "rootRank"} <= of_calls[name], name
    for name in ("AllgatherOptions", "AllToAllOptions", "BarrierOptions"):
        assert {"asyncOp", "timeout"} <= of_calls[name], name
    text = (SOURCES / "_backend.py").read_text()
    body = text[text.index("def create("):]
    used = set(re.findall(r"\bopts\.(\w+)", body))
    assert used and used <= made, used - made


def imported(files):
    """The output of `import distwrap.torch` beside a package torch of these
    files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / "torch" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        path = folder + os.pathsep + os.environ.get("PYTHONPATH", "")
        done = subprocess.run(
            [sys.executable, "-c", "import distwrap.torch"], text=True,
            stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path})
        assert done.returncode == 1, done
        return done.stderr.strip().splitlines()[-1]


def test_what_is_no_pytorch_that_serves():
    told = [imported({"__init__.py": "raise ImportError('no such library')"}),
            imported({"__init__.py": "__version__ = '2.15.0'\n"
                      "from . import distributed",
                      "distributed.py": "def is_available(): return False"}),
            imported({"__init__.py": "__version__ = '2.12.1'\n"
                      "from . import distributed",
                      "distributed.py": "def is_available(): return True",
                      "_C/__init__.py": "from . import _distributed_c10d",
                      "_C/_distributed_c10d.py": "class ProcessGroup: pass"})]
    for line, says in zip(told, ("no such library", "without torch.distributed",
                                 "2.12.1 is too old")):
        assert line.startswith("ImportError: distwrap.torch: "), line
        assert says in line and "2.13 or later" in line, line


if __name__ == "__main__":
    cases = [case for name, case in list(globals().items())
             if name.startswith("test_")]
    for case in cases:
        case()
    print(f"{len(cases)} cases passed")
