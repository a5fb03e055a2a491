"""The commands of the backend for PyTorch:

  torchrun -m distwrap.torch run train.py [ARGUMENT...]
      runs a program that names gloo over distwrap
  python -m distwrap.torch build
      compiles the backend for the PyTorch that is there (docs/torch.md)
"""

import runpy
import sys

_USAGE = """usage: python -m distwrap.torch run [-m] PROGRAM [ARGUMENT...]
       python -m distwrap.torch build"""


def main(arguments):
    if arguments == ["build"]:
        from . import _compiled

        return _compiled.main()
    if arguments[:1] != ["run"] or len(arguments) < 2 + (
            arguments[1:2] == ["-m"]):
        print(_USAGE, file=sys.stderr)
        return 2
    from . import install

    install()
    del arguments[0]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = arguments[0].rpartition("/")[0] or "."
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
