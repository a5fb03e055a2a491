"""distwrap in the place of gloo, for programs of PyTorch that stay unchanged."""

def install():
    """Gives PyTorch's name "gloo" to distwrap, for groups made from now on.
    NotImplementedError before PyTorch 2.14; ImportError without PyTorch.
    docs/torch.md."""
    _adapter().install()


def uninstall():
    """Gives the name "gloo" back to PyTorch's own backend."""
    _adapter().uninstall()


def _adapter():
    # `from . import torch` hides the reason from the second of two threads whose
    # import fails.
    import importlib

    return importlib.import_module("distwrap.torch")
