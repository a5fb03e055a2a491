"""Calls that PyTorch's own gloo refuses, made of its messages: all_gather of
tensors of unequal sizes, and all_to_all of lists."""

import torch.distributed as dist


class _All(dist.Work):
    """The work of several messages."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=None):
        for work in self._works:
            if timeout is None:
                work.wait()
            else:
                work.wait(timeout)
        return True

    def is_completed(self):
        return all(work.is_completed() for work in self._works)


def _exchange(inputs, outputs, group, async_op):
    """Sends inputs[i] to rank i of the group and receives outputs[i] from it."""
    group = group or dist.group.WORLD
    mine = dist.get_rank(group)
    outputs[mine].copy_(inputs[mine])
    # The messages name ranks of the world.
    messages = []
    for place, peer in enumerate(dist.get_process_group_ranks(group)):
        if place == mine:
            continue
        if outputs[place].numel():
            messages.append(dist.P2POp(dist.irecv, outputs[place], peer, group))
        if inputs[place].numel():
            messages.append(dist.P2POp(dist.isend, inputs[place], peer, group))
    works = dist.batch_isend_irecv(messages) if messages else []
    if async_op:
        return _All(works)
    for work in works:
        work.wait()
    return None


def _is_gloo(group):
    return dist.get_backend(group) == "gloo"


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """torch.distributed.all_gather, over gloo with rows of unequal numbers."""
    if _is_gloo(group) and any(one.shape != tensor.shape
                               for one in tensor_list):
        return _exchange([tensor] * len(tensor_list), tensor_list, group,
                         async_op)
    return dist.all_gather(tensor_list, tensor, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None,
               async_op=False):
    """torch.distributed.all_to_all, over gloo as messages."""
    if _is_gloo(group):
        return _exchange(input_tensor_list, output_tensor_list, group, async_op)
    return dist.all_to_all(output_tensor_list, input_tensor_list, group,
                           async_op)
