"""Gradients of mixtures of experts: a layer on all ranks against one process
that has all tokens, and against differences of its loss. All numbers are small
multiples of 1/8, so that results are equal to the bit."""

import itertools

import numpy as np

import distwrap as dist
from distwrap import moe
from support import check, equal, main, rank, size

SLOTS, WIDTH, BUCKETS = 3, 2, 2
KINDS = ("rank_major", "at_expert", "at_source")


def tokens_of(source):
    return 0 if source == 2 else 4 + source


def ids_of(source):
    """The experts of a rank's tokens, some repeated and some unused."""
    random = np.random.default_rng(source)
    ids = random.integers(0, BUCKETS * size(), (tokens_of(source), SLOTS),
                          dtype="i8")
    ids[:1, 1] = ids[:1, 0]
    ids[1:2, 2] = ids[1:2, 0]
    ids[2:3] = ids[2:3, :1]
    ids[3:4, 1] = -1
    return ids


def numbers(seed, shape, dtype="f8"):
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 8).astype(
        dtype)


def x_of(source, dtype="f8"):
    return numbers(100 + source, (tokens_of(source), WIDTH), dtype)


def weights_of(source):
    return numbers(200 + source, (tokens_of(source), SLOTS), "f4")


def cotangents_of(source, dtype="f8"):
    return numbers(300 + source, (tokens_of(source), WIDTH), dtype)


def scales(dtype="f8"):
    """Expert e multiplies by scales()[e]."""
    return numbers(400, (BUCKETS * size(), WIDTH), dtype)


class Layer:
    """Router weights, dispatch, experts and combine, with their gradients. The
    rows of padding get values that would spoil every sum."""

    def __init__(self, kind, dtype="f8", **options):
        layout = "rank_major" if kind == "rank_major" else "expert_major"
        self.kind, self.dtype = kind, dtype
        self.plan = moe.plan(ids_of(rank()), BUCKETS * size(), layout=layout,
                             **options)

    def expert_of_row(self):
        rows = np.full(self.plan.output_rows, -1)
        first, counts = self.plan.expert_offsets, self.plan.expert_counts
        for b in range(BUCKETS):
            rows[first[b]:first[b] + counts[b]] = BUCKETS * rank() + b
        return rows

    def forward(self, x, weights):
        plan = self.plan
        self.weights = weights
        sent = None if self.kind == "at_source" else weights
        self.rows, self.row_weights = moe.dispatch(plan, x, weights=sent)
        if self.kind == "rank_major":
            self.factor = np.zeros((plan.output_rows, WIDTH), self.dtype)
            for i, k in self.served():
                expert = BUCKETS * rank() + plan.recv_topk_idx[i, k]
                self.factor[i] += (self.row_weights[i, k] *
                                   scales(self.dtype)[expert])
            self.y = self.factor * self.rows
            self.how = {}
        else:
            experts = self.expert_of_row()
            self.factor = scales(self.dtype)[experts]
            self.y = self.factor * self.rows
            self.y[experts < 0] = np.nan
            self.how = {"weighting": self.kind,
                        "weights": weights if self.kind == "at_source"
                        else self.row_weights}
            if self.kind == "at_expert":
                self.row_weights[experts < 0] = np.nan
        return moe.combine(plan, self.y, **self.how)

    def served(self):
        ids = self.plan.recv_topk_idx
        return [(i, k) for i in range(self.plan.recv_rows)
                for k in range(SLOTS) if ids[i, k] >= 0]

    def backward(self, cotangents):
        """The gradients of x and of the weights."""
        plan = self.plan
        grad_y, grad_w = moe.combine_backward(plan, cotangents, self.y,
                                              **self.how)
        equal(grad_y.dtype, self.y.dtype)
        check((grad_y[plan.src_rank < 0] == 0).all(), "padding")
        if self.kind == "rank_major":
            equal(grad_w, None)
            grad_w = np.zeros_like(self.row_weights)
            for i, k in self.served():
                expert = BUCKETS * rank() + plan.recv_topk_idx[i, k]
                grad_w[i, k] = (scales(self.dtype)[expert] * self.rows[i] *
                                grad_y[i]).sum()
        grad_rows = self.factor * grad_y
        if self.kind == "at_source":
            grad_x, nothing = moe.dispatch_backward(plan, grad_rows)
            equal(nothing, None)
            return grad_x, grad_w
        check(np.isfinite(grad_w).all())
        return moe.dispatch_backward(plan, grad_rows, grad_w, order="top_k"
                                     if self.kind == "at_expert" else "tree",
                                     reproducible=True)


def one_process(source, kept, dtype="f8"):
    """The result and the gradients of a rank's tokens, without ranks. kept
    (T,K): the slots whose expert counts."""
    ids, x, w, c = (of(source) for of in (ids_of, x_of, weights_of,
                                          cotangents_of))
    out, grad_x, grad_w = np.zeros_like(x), np.zeros_like(x), np.zeros_like(w)
    for t, k in itertools.product(range(len(ids)), range(SLOTS)):
        if kept[t, k]:
            s = scales()[ids[t, k]]
            out[t] += w[t, k] * s * x[t]
            grad_x[t] += w[t, k] * s * c[t]
            grad_w[t, k] = (s * x[t] * c[t]).sum()
    return out.astype(dtype), grad_x.astype(dtype), grad_w


def counted(plan):
    """The slots that count: served, or repeating one that is."""
    return plan.serving_slots >= 0


OPTIONS = (
    {}, {"dedup": "none"}, {"dedup": "node", "node_of": "pairs"},
    {"alignment": 4}, {"alignment": 4, "zero_padding": False},
    {"overflow": "drop", "expert_capacity": 3},
    {"overflow": "drop", "expert_capacity": 3, "bases": "fixed",
     "alignment": 2, "zero_padding": False},
    {"overflow": "drop", "row_capacity": 5},
)


def cases():
    for kind, options in itertools.product(KINDS, OPTIONS):
        options = dict(options)
        if "node_of" in options:
            options["node_of"] = [r // 2 for r in range(size())]
        if kind == "rank_major":
            for name in ("alignment", "zero_padding", "bases"):
                options.pop(name, None)
        yield kind, options


def test_gradients_equal_those_of_one_process():
    for kind, options in cases():
        for dtype in ("f8", "f4"):
            layer = Layer(kind, dtype, **options)
            out = layer.forward(x_of(rank(), dtype), weights_of(rank()))
            grad_x, grad_w = layer.backward(cotangents_of(rank(), dtype))
            expected = one_process(rank(), counted(layer.plan), dtype)
            for name, got, right in zip(("out", "grad_x", "grad_w"),
                                        (out, grad_x, grad_w), expected):
                equal(got.dtype, right.dtype)
                check((got == right).all(), kind, options, dtype, name, got,
                      right)


def total(numbers):
    sums = np.array([numbers], "f8")
    dist.all_reduce(sums)
    return sums[0]


def test_gradients_equal_differences():
    """The loss is linear in each input, so differences are exact."""
    step = 0.5
    for kind in KINDS:
        layer = Layer(kind)
        x, w, c = x_of(rank()), weights_of(rank()), cotangents_of(rank())
        loss = total((layer.forward(x, w) * c).sum())
        grads = layer.backward(c)
        for source in range(size()):
            for which, shape in enumerate(((tokens_of(source), WIDTH),
                                           (tokens_of(source), SLOTS))):
                for at in np.ndindex(shape):
                    inputs = [x.copy(), w.copy()]
                    if rank() == source:
                        inputs[which][at] += step
                    change = total((layer.forward(*inputs) * c).sum()) - loss
                    if rank() == source:
                        equal(change / step, grads[which][at], kind, which, at)


def test_ranks_without_rows():
    """All tokens want expert 0, so other ranks get none."""
    ids = np.zeros((2, 1), "i8")
    for kind in ("at_expert", "at_source"):
        plan = moe.plan(ids, BUCKETS * size(), layout="expert_major")
        x, w = numbers(1, (2, WIDTH)), numbers(2, (2, 1), "f4")
        rows, row_weights = moe.dispatch(plan, x, weights=w)
        equal(len(rows), 2 * size() if rank() == 0 else 0)
        weights = w if kind == "at_source" else row_weights
        grad_y, grad_w = moe.combine_backward(plan, 2 * x, rows,
                                              weighting=kind, weights=weights)
        grad_x, back = moe.dispatch_backward(
            plan, grad_y, grad_w if kind == "at_expert" else None)
        check((grad_x == 2 * w * x).all())
        check(((back if kind == "at_expert" else grad_w)[:, 0] ==
               (2 * x * x).sum(1)).all())


def test_serving_slots():
    plan = moe.plan(ids_of(rank()), BUCKETS * size())
    ids = ids_of(rank())
    expected = [[-1 if e < 0 else row.index(e) for e in row]
                for row in ids.tolist()]
    equal(plan.serving_slots.tolist(), expected)
    equal(plan.serving_slots.dtype, np.dtype("i4"))
    check(((plan.serving_slots == np.arange(SLOTS)) == plan.kept).all())
    again = moe.plan(np.full_like(ids, 1), BUCKETS * size(), reuse=plan,
                     overflow="drop", expert_capacity=2,
                     layout="expert_major")
    kept = min(max(2 - sum(map(tokens_of, range(rank()))), 0), len(ids))
    equal(again.serving_slots.tolist(),
          [[0 if t < kept else -1] * SLOTS for t in range(len(ids))])


def test_one_is_the_adjoint_of_the_other():
    for layout in ("rank_major", "expert_major"):
        plan = moe.plan(ids_of(rank()), BUCKETS * size(), layout=layout)
        x = np.random.default_rng(rank()).integers(-99, 99, (
            tokens_of(rank()), 2, WIDTH)).astype("i8")
        rows, _ = moe.dispatch(plan, x)
        y = np.random.default_rng(50 + rank()).integers(-99, 99, rows.shape)
        grad_x, _ = moe.dispatch_backward(plan, y)
        equal(total((rows * y).sum()), total((x * grad_x).sum()))
        grad_y, nothing = moe.combine_backward(plan, x)
        check((grad_y == rows).all() and nothing is None)


if __name__ == "__main__":
    main(globals())
