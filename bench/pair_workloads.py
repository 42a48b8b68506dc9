# SPDX-License-Identifier: Apache-2.0
"""The programs that gpu_pairs measures: each makes a step, a function without arguments that does the
same work every time. With PyTorch, three that a launch-bound user would know; without a GPU, three
of their shape on the stand-in of simulated_step.cpp, which tells of blocks as PyTorch's allocator does.
"""

import ctypes
import functools

RECORDER_THREADS = "gpumemtrace"  # how their names begin

def transformer():
    """A launch-bound GPT-2: 8 layers of width 128, AdamW over all tensors at once."""
    import torch
    from torch import nn

    layers, width, heads, words, batch, length = 8, 128, 4, 512, 4, 64
    torch.manual_seed(20)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            shape = (batch, length, heads, width // heads)
            query, key, value = (part.view(shape).transpose(1, 2)
                                 for part in self.attention(self.first(x)).chunk(3, dim=-1))
            seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.wide(self.second(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens):
            x = self.words(tokens) + self.places.weight
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    tokens = torch.randint(words, (batch, length), device="cuda")

    def step():
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def convolution():
    """A small residual net on small pictures, SGD."""
    import torch
    from torch import nn

    torch.manual_seed(20)

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            return nn.functional.relu(x + self.inner(x))

    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *(Block(32) for _ in range(8)),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    pictures = torch.randn(8, 3, 32, 32, device="cuda")
    answers = torch.randint(10, (8,), device="cuda")

    def step():
        loss = nn.functional.cross_entropy(model(pictures), answers)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def inference():
    """A small encoder without gradients."""
    import torch
    from torch import nn

    torch.manual_seed(20)
    layer = nn.TransformerEncoderLayer(128, 4, dim_feedforward=512, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda().eval()
    inputs = torch.randn(4, 64, 128, device="cuda")

    def step():
        with torch.inference_mode():
            model(inputs)

    return step


class Simulated:
    """Layers of Python calls around a library that makes blocks."""

    # PyTorch's way of waiting for its engine: the recorder looks for this name.
    WAY_IN = compile("def _engine_run_backward(run, *arguments):\n    return run(*arguments)\n",
                     "/x/torch/autograd/graph.py", "exec")

    def __init__(self, library, multiplications):
        self._library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        self._library.simulated_begin.restype = ctypes.c_bool
        if not self._library.simulated_begin():
            raise OSError(f"{library} has nothing that could be told of blocks")
        self._multiplications = multiplications
        namespace = {}
        exec(self.WAY_IN, namespace)
        self._wait_for = namespace["_engine_run_backward"]

    def call(self, pairs):
        self._library.simulated_blocks(pairs, self._multiplications)

    def forward(self, layers, pairs):
        for _ in range(layers):
            self._module(4, pairs)

    def _module(self, depth, pairs):
        """As modules call their parts."""
        if depth == 0:
            return self.call(pairs)
        return self._module(depth - 1, pairs)

    def backward(self, pairs):
        self._wait_for(self._library.simulated_backward, pairs, self._multiplications)


def simulated(library, layers, forward_pairs, backward_pairs, optimizer_pairs, multiplications):
    model = Simulated(library, multiplications)

    def step():
        model.forward(layers, forward_pairs)
        if backward_pairs:
            model.backward(backward_pairs)
        if optimizer_pairs:
            model.call(optimizer_pairs)

    return step


ON_GPU = {"transformer": transformer, "convolution": convolution, "inference": inference}

# A multiplication that waits for the one before takes a nanosecond or so.
WITHOUT_GPU = {
    "transformer": functools.partial(simulated, layers=16, forward_pairs=18, backward_pairs=260,
                                     optimizer_pairs=100, multiplications=12_000),
    "convolution": functools.partial(simulated, layers=18, forward_pairs=4, backward_pairs=80,
                                     optimizer_pairs=10, multiplications=24_000),
    "inference": functools.partial(simulated, layers=12, forward_pairs=16, backward_pairs=0,
                                   optimizer_pairs=0, multiplications=12_000),
}
