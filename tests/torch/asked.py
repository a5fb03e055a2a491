"""The calls that each minor version of PyTorch asks of a backend in Python, as its
stubs and headers tell: tests/golden/torch_asks.txt.

  asked.py make WHEEL...   prints the record of the wheels
  asked.py fetch VERSION...  downloads wheels (0.5 GB each) and prints theirs
  asked.py compare RECORD    downloads those of versions.txt, and compares; exits
                             with 77 where nothing can be downloaded
"""

import ast
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

_STUBS = "torch/_C/_distributed_c10d.pyi"
_FUNCTIONS = "torch/distributed/distributed_c10d.py"
_STRUCTS = ("_DistributedBackendOptions", "Work")


def _calls_of_header(text):
    """name(arguments) of each Python method that a trampoline looks for."""
    found = {}
    flat = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    flat = re.sub(r"^#define.*?(?<!\\)$", "", flat, flags=re.S | re.M)
    for arguments in re.findall(r"WORK_OVERRIDE\(([^)]*)\)", flat):
        _, name, *rest = [one.strip() for one in arguments.split(",")]
        found[name] = rest
    for arguments in re.findall(r"PYBIND11_OVERRIDE\((.*?)\);", flat, re.S):
        parts = [one.strip() for one in arguments.split(",") if one.strip()]
        name = next(i for i, one in enumerate(parts)
                    if one in ("Backend", "ProcessGroup", "Work")) + 1
        found[parts[name]] = parts[name + 1:]
    for name, rest in re.findall(
            r"get_override\(\s*static_cast<const \w+\*>\(this\),\s*\"(\w+)\""
            r"\);(.*?)\n  }", flat, re.S):
        rest = re.sub(r"std::move\((\w+)\)", r"\1", rest)
        call = re.search(r"\boverride\(([^;)]*)\)", rest)
        given = call.group(1).split(",") if call else []
        found.setdefault(name, [one.strip() for one in given if one.strip()])
    for name in re.findall(r"getPropertyOverride\(\s*\"(\w+)\"", flat):
        found[name] = ["property"]
    return found


def _structs_of_stubs(text):
    """class -> its fields and methods, for the structs of calls."""
    structs = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            continue
        if not (node.name.endswith("Options") or node.name in _STRUCTS):
            continue
        names = set()
        for base in node.bases:
            names |= structs.get(getattr(base, "id", ""), set())
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                names.add(item.name)
            elif isinstance(item, ast.AnnAssign):
                names.add(item.target.id)
        structs[node.name] = names
    return structs


def record(wheel):
    """The lines of one wheel."""
    minor = re.match(r"torch-(\d+\.\d+)", pathlib.Path(wheel).name).group(1)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        stubs = archive.read(_STUBS).decode()
        functions = archive.read(_FUNCTIONS).decode()
        headers = {name.rpartition("/")[2]: archive.read(name).decode()
                   for name in names
                   if re.search(r"c10d/(py/)?Py(Backend|ProcessGroup)\.hpp$",
                                name)}
    kind = "PyBackend.hpp" if "PyBackend.hpp" in headers else "PyProcessGroup.hpp"
    form = "backend" if kind == "PyBackend.hpp" else "group"
    lines = [f"{minor} {form} {name}({', '.join(arguments)})" for name, arguments
             in sorted(_calls_of_header(headers[kind]).items())]
    if form == "group":  # torch.distributed calls some of the methods
        called = re.findall(r"\b(?:group|pg|group_to_use)\.(\w+)\(", functions)
        lines += [f"{minor} called {name}" for name in sorted(set(called))]
    for struct, fields in sorted(_structs_of_stubs(stubs).items()):
        lines.append(f"{minor} struct {struct}: {' '.join(sorted(fields))}")
    return lines


def fetched(version):
    """The lines of the wheel of a version."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "-q", "download",
                        "--no-deps", "--no-cache-dir", "-d", folder,
                        f"torch=={version}"], check=True)
        wheel, = pathlib.Path(folder).glob("*.whl")
        return record(wheel)


def compare(kept):
    versions = re.findall(r"^torch==(\S+)", pathlib.Path(__file__).with_name(
        "versions.txt").read_text(), re.M)
    try:
        lines = [line for version in versions for line in fetched(version)]
    except subprocess.CalledProcessError:
        print(f"skipped: PyTorch {', '.join(versions)} cannot be downloaded")
        return 77
    wrong = list(difflib.unified_diff(
        kept.read_text().splitlines(), lines, str(kept), "the wheels",
        lineterm=""))
    print("\n".join(wrong) if wrong else f"{len(lines)} lines are equal")
    return 1 if wrong else 0


def main(arguments):
    if arguments[:1] == ["make"]:
        wheels = arguments[1:]
        print("\n".join(line for wheel in wheels for line in record(wheel)))
        return 0
    if arguments[:1] == ["fetch"]:
        for version in arguments[1:]:
            print("\n".join(fetched(version)))
        return 0
    if arguments[:1] == ["compare"] and len(arguments) == 2:
        return compare(pathlib.Path(arguments[1]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
