"""The names under which PyTorch finds the backend."""

import torch.distributed as dist

from ._backend import IS_BACKEND, create

# The entry that PyTorch had under "gloo" before install().
_before = None


def register():
    """Makes the backend known as "distwrap", for the CPU."""
    dist.Backend.register_backend("distwrap", create, extended_api=True,
                                  devices=["cpu"])


def install():
    """Gives the name "gloo" to distwrap, so that a program which names gloo runs
    over distwrap unchanged. Groups made before stay as they are. Tensors of other
    devices than the CPU are then served by no group of this name alone."""
    global _before
    plugins = getattr(dist.Backend, "_plugins", None)
    ensure = getattr(dist.Backend, "_ensure_backend_registered", None)
    if not IS_BACKEND or plugins is None or ensure is None:
        raise NotImplementedError(
            "install(): this PyTorch has gloo built in, under a name that cannot "
            "be given away. Next: use PyTorch 2.14 or later, or "
            "init_process_group('distwrap')")
    if _before is not None:
        return
    ensure("gloo")
    backend = dist.Backend
    _before = (plugins.get("GLOO"), backend.backend_type_map.get("gloo"),
               backend.backend_capability.get("gloo"))
    # The kind is that of a custom backend: C++ casts one of gloo's kind to
    # gloo's class.
    backend.register_backend("gloo", create, extended_api=True,
                             devices=["cpu"])


def uninstall():
    """Gives the name "gloo" back. Groups made meanwhile stay as they are."""
    global _before
    if _before is None:
        return
    plugin, kind, devices = _before
    _before = None
    if plugin is not None:
        dist.Backend._plugins["GLOO"] = plugin
    if kind is not None:
        dist.Backend.backend_type_map["gloo"] = kind
    if devices is not None:
        dist.Backend.backend_capability["gloo"] = devices
