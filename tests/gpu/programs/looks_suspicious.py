# SPDX-License-Identifier: Apache-2.0
"""Programs without a fault whose memory does what faults do. Nothing may be found on any of them.

    looks_suspicious.py NAME          # a function below PROGRAMS; --list names them
"""

import collections
import copy
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

PROGRAMS = {}
STEPS = 200


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def network(width=512, depth=3):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers).cuda()


def rows(count=64, width=512):
    return torch.randn(count, width, device="cuda")


def train_step(model, optimizer, batch):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def adamw(model):
    return torch.optim.AdamW(model.parameters())


@program
def plain_training():
    model = network()
    optimizer = adamw(model)
    for _ in range(STEPS):
        train_step(model, optimizer, rows())


@program
def cache_that_fills():
    """Results by key; after the first quarter every key is there."""
    model, cache = network(), {}
    with torch.no_grad():
        for step in range(400):
            key = random.randrange(24)
            if key not in cache:
                cache[key] = model(rows(256))
            cache[key].sum()


@program
def cache_of_growing_entries():
    """Four entries that are replaced by larger ones up to a bound."""
    model, cache = network(), {}
    with torch.no_grad():
        for step in range(STEPS):
            cache[step % 4] = model(rows(64 + 4 * min(step, 150)))


@program
def bounded_history():
    """The last 64 results are kept."""
    model, history = network(), collections.deque(maxlen=64)
    with torch.no_grad():
        for _ in range(400):
            history.append(model(rows()))


@program
def replay_buffer():
    """Filled once, then each entry replaces another."""
    model, kept = network(), []
    optimizer = adamw(model)
    for step in range(300):
        entry = rows(32)
        if len(kept) < 96:
            kept.append(entry)
        else:
            kept[random.randrange(96)] = entry
        train_step(model, optimizer, random.choice(kept))


@program
def sawtooth():
    """Gathers sixteen results, then sums and drops them."""
    model, gathered = network(), []
    with torch.no_grad():
        for step in range(400):
            gathered.append(model(rows(128)))
            if len(gathered) == 16:
                torch.stack(gathered).sum().item()
                gathered.clear()


@program
def slow_sawtooth():
    """An epoch's outputs, dropped after each of five epochs."""
    model = network()
    with torch.no_grad():
        for _ in range(5):
            outputs = [model(rows(128)) for _ in range(60)]
            torch.cat(outputs).mean().item()


@program
def growing_batch():
    """The batch doubles every fifty steps up to 512 rows."""
    model = network()
    optimizer = adamw(model)
    for step in range(STEPS):
        train_step(model, optimizer, rows(64 << step // 50))


@program
def growing_sequence():
    """Sequences get longer as a curriculum says."""
    model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).cuda()
    optimizer = adamw(model)
    for step in range(STEPS):
        train_step(model, optimizer, torch.randn(4, 32 + step, 128, device="cuda"))


@program
def shuffled_lengths():
    model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).cuda()
    optimizer = adamw(model)
    for _ in range(STEPS):
        train_step(model, optimizer, torch.randn(4, random.randrange(16, 256), 128, device="cuda"))


@program
def sorted_lengths():
    """Buckets by length, the short ones first, in each of four epochs."""
    model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).cuda()
    optimizer = adamw(model)
    for _ in range(4):
        for length in range(16, 240, 4):
            train_step(model, optimizer, torch.randn(4, length, 128, device="cuda"))


@program
def warm_up():
    """Larger and larger requests before the work begins."""
    model = network()
    for exponent in range(10):
        with torch.no_grad():
            model(rows(4 << exponent))
    optimizer = adamw(model)
    for _ in range(STEPS):
        train_step(model, optimizer, rows())


@program
def state_made_late():
    """The second half of the network is trained from the middle of the run on."""
    model = network(depth=4)
    first, second = adamw(model[:4]), adamw(model[4:])
    for step in range(STEPS):
        loss = model(rows()).square().mean()
        model.zero_grad()
        loss.backward()
        first.step()
        if step >= STEPS // 2:
            second.step()


@program
def layers_unfrozen():
    """One layer more is trained every thirty steps."""
    model = network(depth=6)
    model.requires_grad_(False)
    linears = [layer for layer in model if isinstance(layer, nn.Linear)]
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        if step % 30 == 0 and step // 30 < len(linears):
            linears[-1 - step // 30].requires_grad_(True)
        train_step(model, optimizer, rows())


@program
def evaluation_every_20_steps():
    model = network()
    optimizer = adamw(model)
    for step in range(STEPS):
        train_step(model, optimizer, rows())
        if step % 20 == 19:
            model.eval()
            with torch.no_grad():
                outputs = [model(rows(256)).argmax(-1) for _ in range(10)]
            torch.cat(outputs).float().mean().item()
            model.train()


@program
def best_checkpoint_on_device():
    """A copy of the best weights so far, replaced whenever there is a better one."""
    model, best, kept = network(), float("inf"), None
    optimizer = adamw(model)
    for step in range(STEPS):
        loss = train_step(model, optimizer, rows())
        if step % 10 == 0 and loss.item() < best:
            best, kept = loss.item(), copy.deepcopy(model.state_dict())


@program
def checkpoint_to_host():
    model = network()
    optimizer = adamw(model)
    for step in range(STEPS):
        train_step(model, optimizer, rows())
        if step % 50 == 49:
            {name: value.cpu() for name, value in model.state_dict().items()}


@program
def ema_by_hand():
    model = network()
    optimizer = adamw(model)
    average = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(STEPS):
        train_step(model, optimizer, rows())
        with torch.no_grad():
            for name, value in model.state_dict().items():
                average[name].lerp_(value, 0.01)


@program
def ema_made_anew():
    """The average is a new tensor at every step."""
    model = network()
    optimizer = adamw(model)
    average = [p.detach().clone() for p in model.parameters()]
    for _ in range(STEPS):
        train_step(model, optimizer, rows())
        average = [a * 0.99 + p.detach() * 0.01 for a, p in zip(average, model.parameters())]


@program
def ema_that_starts_late():
    model = network()
    optimizer = adamw(model)
    average = None
    for step in range(STEPS):
        train_step(model, optimizer, rows())
        if step == 120:
            average = copy.deepcopy(model).requires_grad_(False)
        if average is not None:
            with torch.no_grad():
                for kept, now in zip(average.parameters(), model.parameters()):
                    kept.lerp_(now, 0.01)


@program
def swapped_buffers():
    """Two buffers change their parts at every step."""
    model = network()
    front, back = rows(256), rows(256)
    with torch.no_grad():
        for _ in range(400):
            back.copy_(model(front))
            front, back = back, front


@program
def prefetched_batches():
    """The next batch is copied on a stream of its own, from pinned memory."""
    model = network()
    optimizer = adamw(model)
    stream = torch.cuda.Stream()
    host = [torch.randn(256, 512).pin_memory() for _ in range(4)]

    def fetch(step):
        with torch.cuda.stream(stream):
            return host[step % 4].cuda(non_blocking=True)

    following = fetch(0)
    for step in range(STEPS):
        torch.cuda.current_stream().wait_stream(stream)
        batch, following = following, fetch(step + 1)
        batch.record_stream(torch.cuda.current_stream())
        train_step(model, optimizer, batch)


@program
def loss_in_every_step():
    """Read with .item(), as many trainings do."""
    model, total = network(), 0.0
    optimizer = adamw(model)
    for _ in range(STEPS):
        total += train_step(model, optimizer, rows()).item()


@program
def answers_to_host():
    """A server: what a request asks goes up, its answer comes down."""
    model, answers = network(1024, 6), []
    with torch.no_grad():
        for _ in range(STEPS):
            answers.append(model(torch.randn(16, 1024).cuda()).argmax(-1).cpu())


@program
def tokens_in_small_batches():
    """Pinned, and in more than a thousand steps."""
    embedding, model = nn.Embedding(1000, 512).cuda(), network()
    host = torch.randint(1000, (8, 128)).pin_memory()
    with torch.no_grad():
        for _ in range(1200):
            model(embedding(host.cuda(non_blocking=True)))


@program
def checkpoints_of_a_wide_model():
    """48 MB four times, into memory that is not pinned."""
    model = network(2048)
    optimizer = adamw(model)
    for step in range(4 * STEPS):
        train_step(model, optimizer, rows(512, 2048))
        if step % STEPS == STEPS - 1:
            {name: value.cpu() for name, value in model.state_dict().items()}


@program
def metrics_as_numbers():
    model, losses = network(), []
    optimizer = adamw(model)
    total = torch.zeros((), device="cuda")
    for step in range(STEPS):
        loss = train_step(model, optimizer, rows())
        total += loss
        if step % 10 == 9:
            losses.append(total.item())


@program
def metrics_on_device():
    """One number a step is kept on the device for the run's end: 512 bytes each."""
    model, losses = network(), []
    optimizer = adamw(model)
    for _ in range(20):
        losses.append(train_step(model, optimizer, rows()))
    torch.stack(losses).mean().item()


@program
def accumulated_gradients():
    model = network()
    optimizer = adamw(model)
    for step in range(STEPS):
        (model(rows()).square().mean() / 8).backward()
        if step % 8 == 7:
            optimizer.step()
            optimizer.zero_grad()


@program
def recurrent_with_truncation():
    """The state goes from step to step without its graph."""
    cell, head = nn.LSTM(128, 256, batch_first=True).cuda(), nn.Linear(256, 128).cuda()
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
    state = None
    for _ in range(STEPS):
        output, state = cell(torch.randn(8, 32, 128, device="cuda"), state)
        loss = head(output).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = tuple(part.detach() for part in state)


@program
def generation_with_cache():
    """Keys and values grow by a token at a time, request by request."""
    projection = nn.Linear(256, 768).cuda()
    with torch.no_grad():
        for _ in range(6):
            keys = torch.empty(4, 0, 256, device="cuda")
            values = torch.empty(4, 0, 256, device="cuda")
            token = torch.randn(4, 1, 256, device="cuda")
            for _ in range(64):
                query, key, value = projection(token).chunk(3, -1)
                keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
                token = F.scaled_dot_product_attention(query, keys, values)


@program
def cache_that_doubles():
    """A static cache that is made twice as large when it is full."""
    projection, length = nn.Linear(256, 256).cuda(), 16
    cache = torch.zeros(4, length, 256, device="cuda")
    with torch.no_grad():
        for step in range(500):
            if step == length:
                length *= 2
                cache = torch.cat([cache, torch.zeros_like(cache)], 1)
            cache[:, step] = projection(torch.randn(4, 256, device="cuda"))


@program
def checkpointed_activations():
    from torch.utils.checkpoint import checkpoint

    model = network(depth=6)
    optimizer = adamw(model)
    for _ in range(STEPS):
        x = rows().requires_grad_()
        for layer in model:
            x = checkpoint(layer, x, use_reentrant=False)
        optimizer.zero_grad()
        x.square().mean().backward()
        optimizer.step()


@program
def two_models_in_turn():
    """Each model is trained for a while, then the other; the one that waits goes to the host."""
    models = [network(), network().cpu()]
    for turn in range(4):
        model = models[turn % 2].cuda()
        models[1 - turn % 2].cpu()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(50):
            train_step(model, optimizer, rows())


@program
def search_over_widths():
    """A larger model in every trial; each is dropped before the next."""
    for width in range(128, 1024, 128):
        model = network(width)
        optimizer = adamw(model)
        for _ in range(30):
            train_step(model, optimizer, rows(64, width))
        del model, optimizer


@program
def scheduled_sampling_pool():
    """A pool of states of changing sizes; one in two is replaced."""
    model, pool = network(), [None] * 16
    with torch.no_grad():
        for step in range(400):
            pool[random.randrange(16)] = model(rows(random.randrange(16, 256)))


@program
def profiled_in_the_middle():
    """A warm-up, ten steps with a hook that keeps outputs, then the rest."""
    model, kept = network(), []
    optimizer = adamw(model)
    for step in range(STEPS):
        hook = None
        if 60 <= step < 70:
            hook = model[0].register_forward_hook(lambda _, __, output: kept.append(output.detach()))
        train_step(model, optimizer, rows())
        if hook:
            hook.remove()
    print(f"{len(kept)} outputs kept")


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PROGRAMS))
        return
    random.seed(20)
    torch.manual_seed(20)
    PROGRAMS[sys.argv[1]]()
    torch.cuda.synchronize()
    print(f"{sys.argv[1]}: peak {torch.cuda.max_memory_allocated()} bytes")


if __name__ == "__main__":
    main()
