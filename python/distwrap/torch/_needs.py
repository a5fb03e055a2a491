"""The PyTorch that serves: told by its names, before anything of it is used."""

_SERVES = "Next: install PyTorch 2.13 or later, as pip install 'torch>=2.13' does"


def check():
    """ImportError without a PyTorch that serves."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"distwrap.torch: PyTorch cannot be imported: {error}. {_SERVES}"
        ) from error
    version = getattr(torch, "__version__", "of an unknown version")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise ImportError(
            f"distwrap.torch: this PyTorch ({version}) was built without "
            f"torch.distributed. {_SERVES}, built with USE_DISTRIBUTED=1")
    from torch._C import _distributed_c10d as c10d

    # PyTorch 2.13 brought these names of the calls with single tensors.
    lacking = [name for name in ("all_gather_single", "reduce_scatter_single",
                                 "all_to_all_single")
               if not hasattr(c10d.ProcessGroup, name)]
    if lacking:
        raise ImportError(
            f"distwrap.torch: PyTorch {version} is too old: its process groups "
            f"lack {', '.join(lacking)}. {_SERVES}")
