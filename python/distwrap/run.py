"""The command of the package: `python -m distwrap.run -n 4 prog.py` starts ranks
as `distwrap run` does."""

import importlib.util
import os
import pathlib
import shutil
import sys


def find_command():
    """The path of the command: inside the package in a wheel, or in the build or
    install tree around it. FileNotFoundError with all places that were tried."""
    package = pathlib.Path(__file__).parent
    places = [package / "bin/distwrap"]
    # In an editable installation the sources lie elsewhere.
    module = importlib.util.find_spec("distwrap._core")
    if module is not None:
        places.append(pathlib.Path(module.origin).parent / "bin/distwrap")
    places += [folder / "bin/distwrap" for folder in package.resolve().parents]
    places += [folder / "bin/distwrap" for folder in package.parents]
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    raise FileNotFoundError("the command distwrap is at none of " +
                            ", ".join(map(str, places)))


def command(arguments=None):
    """Becomes `distwrap ARGUMENTS`."""
    path = find_command()
    os.execv(path, [path] + list(sys.argv[1:] if arguments is None
                                 else arguments))


def main():
    """Becomes `distwrap run ARGUMENTS`; a program that ends in .py is run by
    this interpreter, unless another program that runs it comes before."""
    arguments = list(sys.argv[1:])
    for i, argument in enumerate(arguments):
        if argument.endswith(".py") and os.path.exists(argument):
            arguments.insert(i, sys.executable)
            break
        if shutil.which(argument):
            break
    command(["run", *arguments])


if __name__ == "__main__":
    main()
