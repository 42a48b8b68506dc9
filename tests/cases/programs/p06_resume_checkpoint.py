# SPDX-License-Identifier: Apache-2.0
"""Training of a small GPT, resumed from a checkpoint. As in many single-file trainers the script is one long module,
so its names live until the end. usage: p06_resume_checkpoint.py [clean]"""
import json
import math
import os
import sys
import tempfile

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"MISSING {error}", flush=True)
    sys.exit(77)

clean = "clean" in sys.argv[1:]
device = "cuda"
model_args = dict(n_layer=6, n_head=12, n_embd=768, block_size=256, vocab_size=50304)
batch_size, max_iters, learning_rate = 8, 6, 3e-4
init_from = "resume"
torch.manual_seed(1337)


class Attention(nn.Module):
    def __init__(self, n_head, n_embd):
        super().__init__()
        self.n_head = n_head
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.n_head, width // self.n_head).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(rows, length, width))


class Layer(nn.Module):
    def __init__(self, n_head, n_embd):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attention = Attention(n_head, n_embd)
        self.up, self.down = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, n_layer, n_head, n_embd, block_size, vocab_size):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.places = nn.Embedding(block_size, n_embd)
        self.layers = nn.ModuleList([Layer(n_head, n_embd) for _ in range(n_layer)])
        self.norm = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def earlier_run(path):
    """The state that a first run left: weights, optimizer state, the number of iterations. Made on the CPU."""
    before = GPT(**model_args)
    adam = torch.optim.AdamW(before.parameters(), lr=learning_rate)
    for parameter in before.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    adam.step()
    torch.save({"model": before.state_dict(), "optimizer": adam.state_dict(), "iter_num": 100}, path)


def get_batch(generator):
    ids = torch.randint(0, model_args["vocab_size"], (batch_size, model_args["block_size"] + 1), generator=generator)
    ids = ids.pin_memory().to(device, non_blocking=True)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def get_lr(iteration):
    return learning_rate * 0.5 * (1 + math.cos(math.pi * min(iteration, 1000) / 1000))


def storages(tensors):
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t.is_cuda}


ckpt_path = os.path.join(tempfile.gettempdir(), f"ckpt_{os.getpid()}.pt")
earlier_run(ckpt_path)

model = GPT(**model_args).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
iter_num = 0
if init_from == "resume":
    checkpoint = torch.load(ckpt_path, map_location="cpu" if clean else device)  #!FAULT
    state_dict = checkpoint["model"]
    model.load_state_dict(state_dict)
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num = checkpoint["iter_num"]
os.remove(ckpt_path)
if clean:
    del checkpoint, state_dict

generator = torch.Generator().manual_seed(7)
X, Y = get_batch(generator)
loss_value = 0.0
for iter_num in range(iter_num, iter_num + max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    loss = model(X, Y)
    X, Y = get_batch(generator)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss_value = loss.item()

parameters = storages(model.parameters())
states = storages(v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v))
kept_model = {} if clean else storages(checkpoint["model"].values())
kept_optimizer = {} if clean else storages(
    v for s in checkpoint["optimizer"]["state"].values() for v in s.values() if torch.is_tensor(v))
only_checkpoint = {p: n for p, n in {**kept_model, **kept_optimizer}.items() if p not in parameters and p not in states}
truth = {
    "case": "p06", "mode": "clean" if clean else "faulty",
    "parameter_bytes": sum(parameters.values()),
    "optimizer_state_bytes": sum(states.values()),
    "optimizer_state_shared_with_checkpoint_bytes": sum(n for p, n in states.items() if p in kept_optimizer),
    "held_by_checkpoint_alone_bytes": sum(only_checkpoint.values()),
    "allocated_bytes": torch.cuda.memory_allocated(),
    "max_allocated_bytes": torch.cuda.max_memory_allocated(),
    "max_reserved_bytes": torch.cuda.max_memory_reserved(),
    "loss_approx": round(loss_value, 2),
}
print("TRUTH " + json.dumps(truth), flush=True)
