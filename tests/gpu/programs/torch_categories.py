# SPDX-License-Identifier: Apache-2.0
"""Trains in one of many ways, and tells what its parameters, gradients, state and buffers take.

    torch_categories.py VARIANT       # a function below TRAININGS; --list names them

Truth: at one moment, which a ballast makes the highest of the run, the program walks its parameters,
`.grad`, `optimizer.state` and buffers and sums the blocks of the allocator that they lie in.
"""

import argparse
import bisect
import copy
import os
import tempfile
import weakref

import torch
from torch import nn
from torch.nn import functional as F

import torch_truth

STEPS = 6
BALLAST_BYTES = 512 << 20
CATEGORIES = ("parameter", "gradient", "optimizer_state", "buffer")
TRAININGS = {}
# Bytes that constructors make on the device and that cannot be told: buffers in the size of a
# gradient, state of an optimizer whose steps never allocate.
MADE_ON_DEVICE = {"made_on_device": 791040, "own_parameters_on_device": 786432}


def training(function):
    TRAININGS[function.__name__] = function
    return function


def tensors_in(value):
    """All tensors in nested dictionaries, lists and tuples, local parts of distributed ones."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    if not torch.is_tensor(value):
        return []
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout == torch.sparse_coo:
        return [value._values()]  # the indices lie in the batch
    return [value]


class Peak:
    """The moment at which the program says what it holds."""

    def __init__(self):
        self.bytes = {}
        self.batch = lambda: None  # the leaf of autograd that is no parameter, as long as it lives

    def take(self, models, optimizers):
        ballast = torch.empty(BALLAST_BYTES, dtype=torch.uint8, device="cuda")
        parameters = [p for model in models for p in model.parameters()]
        held = {
            "parameter": parameters,
            "gradient": [p.grad for p in [*parameters, self.batch()] if p is not None],
            "optimizer_state": [dict(optimizer.state) for optimizer in optimizers],
            "buffer": [b for model in models for b in model.buffers()],
        }
        blocks = sorted((block["address"], block["size"])
                        for segment in torch.cuda.memory_snapshot()
                        for block in segment["blocks"] if block["state"] == "active_allocated")
        starts = [address for address, _ in blocks]
        counted = set()
        for category in CATEGORIES:
            total = 0
            for tensor in tensors_in(held[category]):
                address = tensor.untyped_storage().data_ptr() if tensor.is_cuda else 0
                index = bisect.bisect_right(starts, address) - 1
                if address == 0 or index < 0 or index in counted:
                    continue
                counted.add(index)
                total += blocks[index][1]
            self.bytes[category] = total
        del ballast


class Mlp(nn.Module):
    def __init__(self, width=512, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Convolutions(nn.Module):
    def __init__(self, channels=96):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))

    def forward(self, x):
        return self.body(x)


class TiedLanguageModel(nn.Module):
    """An LSTM, whose weights are one flat block, between an embedding and its transpose."""

    def __init__(self, words=8000, width=256):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Attention(nn.Module):
    """Buffers beside weights: a mask, tables of angles, a running mean made on the device."""

    def __init__(self, width=256, length=512):
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.register_buffer("mask", torch.ones(length, length).tril().bool())
        angles = torch.arange(length)[:, None] * torch.logspace(0, -4, width // 2)[None]
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, -1)
        turned = torch.cat([query[..., ::2] * self.cosines - query[..., 1::2] * self.sines,
                            query[..., ::2] * self.sines + query[..., 1::2] * self.cosines], -1)
        scores = (turned @ key.transpose(-1, -2)).masked_fill(~self.mask, float("-inf"))
        return scores.softmax(-1) @ value


def vectors(width=512, rows=256):
    return torch.randn(rows, width, device="cuda")


def images():
    return torch.randn(16, 3, 64, 64).pin_memory().cuda(non_blocking=True)


def tokens(words=8000, length=64):
    return torch.randint(words, (16, length), device="cuda")


def loop(peak, model, optimizer, batch=vectors, set_to_none=True, after_step=None, also=()):
    """The usual training loop; the moment is the last one before the optimizer."""
    for step in range(STEPS):
        loss = model(batch()).float().square().mean()
        optimizer.zero_grad(set_to_none=set_to_none)
        loss.backward()
        if step == STEPS - 1:
            peak.take([model, *also], [optimizer])
        optimizer.step()
        if after_step:
            after_step()
        print(f"step {step} loss {loss.item():.4f}")


def with_optimizer(name, make, **more):
    def run(peak):
        model = Mlp().cuda()
        loop(peak, model, make(model.parameters()), **more)

    TRAININGS[name] = run


with_optimizer("sgd", lambda p: torch.optim.SGD(p, lr=0.01))
with_optimizer("sgd_momentum", lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9))
with_optimizer("adamw", lambda p: torch.optim.AdamW(p))
with_optimizer("adamw_fused", lambda p: torch.optim.AdamW(p, fused=True))
with_optimizer("adam_amsgrad_loop", lambda p: torch.optim.Adam(p, amsgrad=True, foreach=False))
with_optimizer("adam_capturable", lambda p: torch.optim.Adam(p, capturable=True))
with_optimizer("adagrad", lambda p: torch.optim.Adagrad(p))
with_optimizer("adafactor", lambda p: torch.optim.Adafactor(p))
with_optimizer("rmsprop_centered", lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9))
with_optimizer("set_to_none_false", lambda p: torch.optim.AdamW(p), set_to_none=False)


class Lamb(torch.optim.Optimizer):
    """Written by a user: state made at the first step."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                    state["square"] = torch.zeros_like(p)
                state["mean"].lerp_(p.grad, 0.1)
                state["square"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                update = state["mean"] / state["square"].sqrt().add(1e-6)
                p.add_(update, alpha=-group["lr"] * (p.norm() / update.norm().clamp_min(1e-6)).item())


class EightBit(torch.optim.Optimizer):
    """State in one byte an element with a scale for each block, made again at every step."""

    BLOCK = 256

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})
        for group in self.param_groups:
            for p in group["params"]:
                blocks = -(-p.numel() // self.BLOCK)
                self.state[p]["codes"] = torch.zeros(blocks, self.BLOCK, dtype=torch.int8, device=p.device)
                self.state[p]["scales"] = torch.zeros(blocks, 1, device=p.device)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                mean = (state["codes"].float() * state["scales"]).flatten()[:p.numel()].view_as(p)
                mean = mean.mul(0.9).add_(p.grad, alpha=0.1)
                p.add_(mean, alpha=-group["lr"])
                padded = F.pad(mean.flatten(), (0, state["codes"].numel() - p.numel())).view_as(state["codes"])
                state["scales"] = padded.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
                state["codes"] = (padded / state["scales"]).round().to(torch.int8)


with_optimizer("lamb", Lamb)
with_optimizer("eight_bit", EightBit)


@training
def lbfgs(peak):
    model, data = Mlp(256, 2).cuda(), vectors(256)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, history_size=4)

    def closure():
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        return loss

    for step in range(STEPS):
        if step == STEPS - 1:
            closure()
            peak.take([model], [optimizer])
        print(f"step {step} loss {optimizer.step(closure).item():.4f}")


@training
def accumulation(peak):
    model = Mlp().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        for part in range(4):
            loss = model(vectors()).square().mean() / 4
            loss.backward()
            if step == STEPS - 1 and part == 2:
                peak.take([model], [optimizer])
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


@training
def peak_in_forward(peak):
    """Gradients that are zeroed in place live through the next forward."""
    model = Mlp().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        loss = model(vectors()).square().mean()
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


def checkpointed(peak, reentrant):
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Mlp):
        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(lambda y, layer=layer: F.gelu(layer(y)), x, use_reentrant=reentrant)
            return x

    def batch():
        leaf = vectors().requires_grad_()
        peak.batch = weakref.ref(leaf)
        return leaf

    model = Checkpointed().cuda()
    loop(peak, model, torch.optim.AdamW(model.parameters()), batch)


@training
def checkpointing(peak):
    checkpointed(peak, False)


@training
def checkpointing_reentrant(peak):
    checkpointed(peak, True)


@training
def amp_scaler(peak):
    model = Convolutions().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(STEPS):
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(images()), torch.zeros(16, dtype=torch.long, device="cuda"))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item():.4f}")


class WithMaster(torch.optim.Optimizer):
    """Half precision with its own copies in full precision, which are its state."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["master"] = p.detach().float().clone()
                    state["mean"] = torch.zeros_like(state["master"])
                state["mean"].lerp_(p.grad.float(), 0.1)
                state["master"].add_(state["mean"], alpha=-group["lr"])
                p.copy_(state["master"])


@training
def master_weights(peak):
    model = Mlp().cuda().bfloat16()
    loop(peak, model, WithMaster(model.parameters()), lambda: vectors().bfloat16())


@training
def ema_averaged(peak):
    model = Convolutions().cuda()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99), use_buffers=True)
    loop(peak, model, torch.optim.AdamW(model.parameters()), images,
         after_step=lambda: average.update_parameters(model), also=[average])


@training
def ema_deepcopy(peak):
    model = Mlp().cuda()
    average = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update():
        for kept, now in zip(average.parameters(), model.parameters()):
            kept.lerp_(now, 0.01)

    loop(peak, model, torch.optim.AdamW(model.parameters()), after_step=update, also=[average])


@training
def tied_lstm(peak):
    model = TiedLanguageModel().cuda()
    loop(peak, model, torch.optim.Adam(model.parameters()), tokens)


@training
def gru_bidirectional(peak):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(256, 256, num_layers=2, bidirectional=True)

        def forward(self, x):
            return self.gru(x)[0]

    model = Reader().cuda()
    loop(peak, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
         lambda: torch.randn(48, 16, 256, device="cuda"))


@training
def convolutions(peak):
    model = Convolutions().cuda()
    loop(peak, model, torch.optim.AdamW(model.parameters()), images)


@training
def channels_last(peak):
    model = Convolutions().cuda().to(memory_format=torch.channels_last)
    loop(peak, model, torch.optim.AdamW(model.parameters()),
         lambda: images().to(memory_format=torch.channels_last))


@training
def buffers(peak):
    model = Attention().cuda()
    loop(peak, model, torch.optim.AdamW(model.parameters()),
         lambda: torch.randn(4, 512, 256, device="cuda"))


@training
def made_on_device(peak):
    with torch.device("cuda"):
        model = nn.Sequential(Attention(), nn.Linear(256, 256), nn.BatchNorm1d(512))
    loop(peak, model, torch.optim.AdamW(model.parameters()),
         lambda: torch.randn(4, 512, 256, device="cuda"))


@training
def from_meta(peak):
    with torch.device("meta"):
        model = Mlp()
    model.to_empty(device="cuda")
    for layer in model.layers:
        layer.reset_parameters()
    loop(peak, model, torch.optim.AdamW(model.parameters()))


@training
def half_after_move(peak):
    model = nn.Sequential(Mlp(), nn.BatchNorm1d(512)).cuda().half()
    loop(peak, model, torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9), lambda: vectors().half())


@training
def lazy_modules(peak):
    model = nn.Sequential(nn.LazyLinear(512), nn.ReLU(), nn.LazyLinear(512)).cuda()
    model(vectors())
    loop(peak, model, torch.optim.AdamW(model.parameters()))


@training
def sparse_embedding(peak):
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(8000, 256, sparse=True)

        def forward(self, x):
            return self.embedding(x)

    model = Bag().cuda()
    loop(peak, model, torch.optim.SparseAdam(model.parameters()), tokens)


@training
def adapters(peak):
    """A frozen network with small trained ones beside it."""

    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = Mlp().requires_grad_(False)
            self.down = nn.Linear(512, 16, bias=False)
            self.up = nn.Linear(16, 512, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    model = Adapted().cuda()
    loop(peak, model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]))


@training
def two_optimizers(peak):
    maker, judge = Mlp(512, 2).cuda(), Mlp(512, 2).cuda()
    makers = torch.optim.Adam(maker.parameters())
    judges = torch.optim.RMSprop(judge.parameters())
    for step in range(STEPS):
        judges.zero_grad()
        loss = judge(maker(vectors()).detach()).mean() - judge(vectors()).mean()
        loss.backward()
        judges.step()
        makers.zero_grad()
        loss = -judge(maker(vectors())).mean()
        loss.backward()
        if step == STEPS - 1:
            peak.take([maker, judge], [makers, judges])
        makers.step()
        print(f"step {step} loss {loss.item():.4f}")


@training
def clipped_and_scheduled(peak):
    model = Mlp().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS)
    for step in range(STEPS):
        loss = model(vectors()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f}")


@training
def resumed(peak):
    """Model and optimizer go on from a checkpoint."""
    first = Mlp().cuda()
    optimizer = torch.optim.AdamW(first.parameters())
    first(vectors()).square().mean().backward()
    optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, path)
        del first, optimizer
        saved = torch.load(path, map_location="cpu")
    model = Mlp().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    loop(peak, model, optimizer)


@training
def optimizer_in_backward(peak):
    """Each parameter steps as soon as its gradient is there."""
    model = Mlp().cuda()
    optimizers = {p: torch.optim.AdamW([p]) for p in model.parameters()}

    def step_one(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_one)
    for step in range(STEPS):
        loss = model(vectors()).square().mean()
        loss.backward()
        if step == STEPS - 1:
            peak.take([model], list(optimizers.values()))
        print(f"step {step} loss {loss.item():.4f}")


@training
def weight_norm(peak):
    model = nn.Sequential(*(nn.utils.parametrizations.weight_norm(nn.Linear(512, 512)) for _ in range(3))).cuda()
    loop(peak, model, torch.optim.AdamW(model.parameters()))


@training
def peak_in_backward(peak):
    """While the first layer's gradients are still to come."""
    model = Mlp(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        loss = model(vectors()).square().mean()
        optimizer.zero_grad()
        hook = None
        if step == STEPS - 1:
            hook = model.layers[1].weight.register_post_accumulate_grad_hook(
                lambda _: peak.take([model], [optimizer]))
        loss.backward()
        if hook:
            hook.remove()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


@training
def gradients_as_wholes(peak):
    """torch.autograd.grad() and an update by hand."""
    model = Mlp().cuda()
    parameters = list(model.parameters())
    for step in range(STEPS):
        loss = model(vectors()).square().mean()
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        del gradients
        if step == STEPS - 1:
            peak.take([model], [])
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.01 * parameter.grad
        print(f"step {step} loss {loss.item():.4f}")


@training
def orthogonal_momentum(peak):
    """Matrices by one optimizer of the user's, all else by another."""

    class Orthogonal(torch.optim.Optimizer):
        def __init__(self, params, lr=0.02):
            super().__init__(params, {"lr": lr})

        def step(self):
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        if "momentum" not in self.state[p]:
                            self.state[p]["momentum"] = torch.zeros_like(p)
                        momentum = self.state[p]["momentum"].mul_(0.9).add_(p.grad)
                        x = momentum / (momentum.norm() + 1e-7)
                        for _ in range(3):
                            x = 1.5 * x - 0.5 * x @ x.T @ x
                        p.add_(x, alpha=-group["lr"])

    model = Mlp().cuda()
    matrices = Orthogonal([p for p in model.parameters() if p.ndim == 2])
    rest = torch.optim.AdamW([p for p in model.parameters() if p.ndim != 2])
    for step in range(STEPS):
        loss = model(vectors()).square().mean()
        matrices.zero_grad()
        rest.zero_grad()
        loss.backward()
        if step == STEPS - 1:
            peak.take([model], [matrices, rest])
        matrices.step()
        rest.step()
        print(f"step {step} loss {loss.item():.4f}")


@training
def tied_transformer(peak):
    """A decoder with tied embeddings, a mask made again, autocast and gradients that stay."""

    class Decoder(nn.Module):
        def __init__(self, words=4000, width=256, length=96):
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.places = nn.Parameter(torch.zeros(length, width))
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.1)
            self.layers = nn.TransformerEncoder(layer, 3)
            self.head = nn.Linear(width, words, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, words):
            length = words.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(length, device=words.device)
            return self.head(self.layers(self.embedding(words) + self.places[:length], mask))

    model = Decoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step in range(STEPS):
        words = tokens(4000, 64 + 4 * step)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(words).flatten(0, 1), words.flatten())
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


@training
def gpt2_checkpointed(peak):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=3, n_embd=384, n_head=6, vocab_size=8000, n_positions=256, use_cache=False)
    model = GPT2LMHeadModel(config).cuda()
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(STEPS):
        words = tokens(length=128)
        loss = model(words, labels=words).loss
        optimizer.zero_grad()
        loss.backward()
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


@training
def own_parameters_on_device(peak):
    """Weights, a table and an optimizer's state that constructors of the program make on the device."""

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(512, 384, device="cuda") * 0.02)
            self.register_buffer("table", torch.randn(700, 384, device="cuda"))

        def forward(self, x):
            return (x @ self.weight) @ self.table.T

    class Signs(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})
            for p in self.param_groups[0]["params"]:
                self.state[p]["mean"] = torch.zeros_like(p)

        @torch.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                mean = self.state[p]["mean"].lerp_(p.grad, 0.1)
                p.sub_(mean.sign_(), alpha=1e-4)

    model = Head()
    loop(peak, model, Signs(model.parameters()))


@training
def compiled(peak):
    model = Mlp().cuda()
    fast = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        loss = fast(vectors()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


def start_one_rank():
    import torch.distributed as distributed
    port = 20000 + os.getpid() % 20000
    distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    torch.cuda.set_device(0)


@training
def ddp(peak):
    start_one_rank()
    model = nn.parallel.DistributedDataParallel(Mlp().cuda(), device_ids=[0])
    loop(peak, model, torch.optim.AdamW(model.parameters()))


@training
def fully_sharded(peak):
    from torch.distributed.fsdp import fully_shard

    start_one_rank()
    model = Mlp().cuda()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    loop(peak, model, torch.optim.AdamW(model.parameters()))


@training
def fully_sharded_flat(peak):
    from torch.distributed.fsdp import FullyShardedDataParallel

    start_one_rank()
    model = FullyShardedDataParallel(Mlp().cuda(), use_orig_params=False)
    loop(peak, model, torch.optim.AdamW(model.parameters()))


@training
def gpt2(peak):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=3, n_embd=384, n_head=6, vocab_size=8000, n_positions=256)
    model = GPT2LMHeadModel(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        words = tokens(length=128)
        loss = model(words, labels=words).loss
        optimizer.zero_grad()
        loss.backward()
        if step == STEPS - 1:
            peak.take([model], [optimizer])
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


def workspace_bytes():
    """The bytes of PyTorch's cuBLAS workspaces; they are gone then."""
    before = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    return before - torch.cuda.memory_allocated()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", nargs="?", choices=sorted(TRAININGS))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--count-workspaces", action="store_true", help="as the last act")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(TRAININGS))
        return
    torch.manual_seed(20)
    peak = Peak()
    TRAININGS[arguments.variant](peak)
    truth = torch_truth.new_truth(f"torch_categories_{arguments.variant}")
    for category, size in peak.bytes.items():
        print(f"{category} {size} bytes")
        allow = [{"reason": "made_on_device", "units": MADE_ON_DEVICE.get(arguments.variant, 0)}]
        truth.check(f"peak bytes, {category}", "peak", size,
                    "blocks of the program's own tensors in torch.cuda.memory_snapshot()",
                    where={"level": "framework"}, field=f"categories.{category}", device=0,
                    allow=allow if arguments.variant in MADE_ON_DEVICE else [])
    if arguments.count_workspaces:
        print(f"workspace {workspace_bytes()} bytes")
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
