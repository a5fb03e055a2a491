"""Dispatch and combine as steps of PyTorch's graph. distwrap.moe loads this file
when a tensor needs a gradient.

The backward of a step is made of exchanges, like its forward. So all ranks run
it, in the same order: on each rank the loss depends on what the step returned.
"""

import torch
from torch.autograd.function import once_differentiable

from . import _core, moe


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights, plan, side, timeout, label):
        ctx.plan, ctx.how = plan, {"timeout": timeout, "label": label}
        ctx.has_weights = weights is not None
        rows, row_weights = moe.dispatch(
            plan, _plain(x), weights=_plain(weights), side=side, **ctx.how)
        # Zeros, so that what experts make of padding has a gradient of zeros.
        plan._clear_padding(rows, *([row_weights] if ctx.has_weights else []))
        return rows, row_weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_rows, grad_weights):
        grad_x, grad_w = moe.dispatch_backward(
            ctx.plan, grad_rows.contiguous(),
            grad_weights.contiguous() if ctx.has_weights else None, **ctx.how)
        return grad_x, grad_w, None, None, None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, weights, plan, weighting, order, reproducible, returns,
                timeout, label, *bias):
        ctx.plan, ctx.weighting = plan, weighting
        ctx.how = {"timeout": timeout, "label": label}
        ctx.bias_types = [one.dtype for one in bias]
        ctx.y_type = y.dtype
        if weights is not None:
            ctx.save_for_backward(y, weights)
        return moe.combine(plan, _plain(y), weighting=weighting,
                           weights=_plain(weights), order=order,
                           reproducible=reproducible, returns=returns,
                           bias=[_plain(one) for one in bias], **ctx.how)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        y, weights = ctx.saved_tensors or (None, None)
        grad_y, grad_w = moe.combine_backward(
            ctx.plan, grad_out.contiguous(), _plain(y),
            weighting=ctx.weighting, weights=_plain(weights), **ctx.how)
        return (grad_y.to(ctx.y_type), grad_w, *[None] * 7,
                *[grad_out.to(kind) for kind in ctx.bias_types])


def dispatch(plan, x, out, weights, weights_out, side, timeout, label):
    _refuse("moe_dispatch", (out, weights_out), moe._inputs(side), "side")
    return _Dispatch.apply(x, weights, plan, side, timeout, label)


def combine(plan, y, out, weighting, weights, bias, order, reproducible,
            returns, timeout, label):
    _refuse("moe_combine", (out,), moe._inputs(returns), "returns")
    return _Combine.apply(y, weights, plan, weighting, order, reproducible,
                          returns, timeout, label, *bias)


def _plain(tensor):
    """The elements side by side, without a place in the graph."""
    return None if tensor is None else tensor.detach().contiguous()


def _refuse(call, outputs, inputs, name):
    """Refuses what the graph could not follow."""
    if any(output is not None for output in outputs):
        raise _core._make_error(
            call, "an output is given, and a tensor needs a gradient",
            "leave the output out, or give tensor.detach()",
            moe._reason("kInvalidArgument"))
    if moe._gradients(*inputs) is not None:
        raise _core._make_error(
            call, f"a tensor of `{name}` needs a gradient, which it does not "
            "get", "give tensor.detach()", moe._reason("kInvalidArgument"))

