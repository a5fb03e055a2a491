"""The module that PyTorch's entry points load. It makes the name "distwrap" known without
loading the library.

This package lies beside distwrap, because importing anything inside of distwrap
loads the library.
"""


def register():
    """Registers a maker of groups that imports distwrap.torch at its first use.
    Called at `import torch`, and again when the name is first used."""
    import torch

    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return
    backend = distributed.Backend
    if "distwrap" not in getattr(backend, "backend_list", ()):
        backend.register_backend("distwrap", _create, extended_api=True,
                                 devices=["cpu"])


def _create(opts, pg_options=None):
    from distwrap import torch as adapter

    return adapter.create(opts, pg_options)
