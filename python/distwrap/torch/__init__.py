"""distwrap as a backend of torch.distributed: the trainer changes its name alone.

    import distwrap.torch
    torch.distributed.init_process_group("distwrap")

docs/torch.md tells what is equal to other backends to the bit, what is refused,
and how to profile.
"""

from ._needs import check as _check

_check()

from ._backend import IS_BACKEND, Backend, create  # noqa: E402
from ._calls import Calls  # noqa: E402
from ._install import install, register, uninstall  # noqa: E402

register()

__all__ = ["Backend", "Calls", "IS_BACKEND", "create", "install", "uninstall"]
