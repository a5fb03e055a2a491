#!/usr/bin/env python3
"""The model of examples/train_gpt.cc in PyTorch eager, to compare step times.

    train_gpt_torch.py [NAME=VALUE...] FILE...

Names and defaults are those of train_gpt: steps, width, layers, heads, context,
batch, dropout, lr. It prints the loss in nats a byte and the milliseconds a
step, on one thread. The random numbers are PyTorch's own, so losses agree in
tendency and not in digits.
"""
import math
import sys
import time

import torch
from torch.nn import functional as F


class Gpt(torch.nn.Module):
    """bytes of (batch, context) give scores of (batch, context, 256)."""

    def __init__(self, c):
        super().__init__()
        self.c, w, hidden = c, c["width"], 2 * c["width"]

        def make(*sizes):
            return torch.nn.Parameter(torch.randn(*sizes) * 0.02)

        def ones():
            return torch.nn.Parameter(torch.ones(w))

        self.embed = make(256, w)
        self.layers = torch.nn.ModuleList(
            torch.nn.ParameterDict({
                "norm": ones(), "qkv": make(3 * w, w), "out": make(w, w),
                "mlp_norm": ones(), "up": make(2 * hidden, w),
                "down": make(w, hidden)}) for _ in range(c["layers"]))
        self.last_norm = ones()
        head = w // c["heads"]
        angle = torch.arange(c["context"]).unsqueeze(1) * torch.exp(
            torch.arange(head // 2) * (-2 * math.log(10000.0) / head))
        self.cos, self.sin = angle.cos(), angle.sin()

    def norm(self, x, weight):
        return F.rms_norm(x, (self.c["width"],), weight, 1e-6)

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin,
                          a * self.sin + b * self.cos], -1)

    def attend(self, layer, x):
        b, t, w = x.shape
        q, k, v = F.linear(x, layer["qkv"]).view(
            b, t, 3, self.c["heads"], w // self.c["heads"]).permute(
                2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(
            self.rotate(q), self.rotate(k), v, is_causal=True)
        return F.linear(mixed.permute(0, 2, 1, 3).reshape(b, t, w),
                        layer["out"])

    def forward(self, rows):
        def drop(x):
            return F.dropout(x, self.c["dropout"])

        x = drop(F.embedding(rows, self.embed))
        for layer in self.layers:
            x = x + drop(self.attend(layer, self.norm(x, layer["norm"])))
            gate, up = F.linear(self.norm(x, layer["mlp_norm"]),
                                layer["up"]).chunk(2, -1)
            x = x + drop(F.linear(F.silu(gate) * up, layer["down"]))
        return F.linear(self.norm(x, self.last_norm), self.embed)


def main(arguments):
    c = {"steps": 300, "width": 64, "layers": 2, "heads": 4, "context": 64,
         "batch": 16, "seed": 1, "dropout": 0.1, "lr": 3e-3}
    text = b""
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign:
            c[name] = type(c[name])(value)
        else:
            with open(argument, "rb") as file:
                text += file.read()
    torch.set_num_threads(1)
    torch.manual_seed(c["seed"])
    gpt = Gpt(c)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=c["lr"])
    places = len(text) - c["context"]
    start = time.perf_counter()
    for step in range(c["steps"]):
        firsts = [(step * c["batch"] + row) * 7919 % places
                  for row in range(c["batch"])]
        rows = torch.tensor([list(text[i:i + c["context"] + 1])
                             for i in firsts])
        scores = gpt(rows[:, :-1])
        loss = F.cross_entropy(scores.reshape(-1, 256),
                               rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step + 1 == c["steps"]:
            spent = (time.perf_counter() - start) * 1e3 / (step + 1)
            print(f"step {step}: {loss.item():.4f} nats a byte, "
                  f"{spent:.1f} ms a step")


if __name__ == "__main__":
    main(sys.argv[1:])
