# SPDX-License-Identifier: Apache-2.0
"""Programs without a fault whose memory and copies do what faults do. None deserves a warning.

    looks_suspicious.py NAME          # a function below @program; --list names them

Filling memory takes the time that kernels take elsewhere.
"""

import collections
import random
import sys

import zoo_cuda
from pretend.torch.optim.sgd import SGD
from zoo_cuda import KIB, MIB

PROGRAMS = {}
LAYERS = 6
STEPS = 120


def program(function):
    PROGRAMS[function.__name__] = function
    return function


class Training:
    """Weights that stay; each step activations, a loss, gradients, and the optimizer's work."""

    def __init__(self, cuda, layer_bytes=2 * MIB):
        self.cuda = cuda
        self.torch = zoo_cuda.Allocator(cuda)
        self.weights = [self.torch.allocate(layer_bytes) for _ in range(LAYERS)]
        self.layer_bytes = layer_bytes
        self.gradients = []
        self.optimizer = SGD(self.torch, self.gradients)

    def forward(self, layer_bytes=None):
        size = layer_bytes or self.layer_bytes
        activations = [self.torch.allocate(size) for _ in range(LAYERS)]
        for block in activations:
            self.cuda.set_bytes(block, 1, size)
        return activations

    def free(self, blocks):
        while blocks:
            self.torch.free(blocks.pop())

    def backward(self, activations):
        while activations:
            self.torch.free(activations.pop())
            if len(self.gradients) < LAYERS:
                self.gradients.append(self.torch.allocate(self.layer_bytes))

    def step(self, layer_bytes=None):
        self.backward(self.forward(layer_bytes))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def close(self):
        self.free(self.gradients)
        self.free(self.weights)
        self.torch.empty_cache()


@program
def loss_in_every_step(cuda):
    training = Training(cuda)
    loss = training.torch.allocate(512)
    for _ in range(STEPS):
        training.step()
        cuda.copy_to_host(loss, 4)
    training.torch.free(loss)
    training.close()


@program
def metrics_in_every_step(cuda):
    """Loss, accuracy, norm and a small matrix of confusions."""
    training = Training(cuda)
    metrics = training.torch.allocate(8 * KIB)
    for _ in range(STEPS):
        training.step(4 * MIB)
        for size in (4, 4, 4, 4 * KIB):
            cuda.copy_to_host(metrics, size)
    training.torch.free(metrics)
    training.close()


@program
def answers_of_a_server(cuda):
    """A request goes up, its answer comes down."""
    model = Training(cuda)
    request, answer = model.torch.allocate(16 * KIB), model.torch.allocate(4 * KIB)
    for _ in range(2 * STEPS):
        cuda.copy_to_device(request, bytes(16 * KIB))
        model.free(model.forward())
        cuda.copy_to_host(answer, 4 * KIB)
    model.free([request, answer])
    model.close()


@program
def tokens_from_pinned_memory(cuda):
    """A small batch in each of very many steps."""
    tokens, host = cuda.alloc(16 * KIB), cuda.pin(16 * KIB)
    scratch = cuda.alloc(4 * MIB)
    for _ in range(1200):
        cuda.copy_up_async(tokens, host, 16 * KIB)
        cuda.set_bytes(scratch, 1, 4 * MIB)
    cuda.synchronize()
    cuda.unpin(host)
    cuda.free(tokens)
    cuda.free(scratch)


@program
def batches_beside_much_work(cuda):
    """From pageable memory, which costs a hundredth of the step."""
    training = Training(cuda, 4 * MIB)
    batch = training.torch.allocate(256 * KIB)
    _buffer, source = zoo_cuda.pageable(256 * KIB)
    for _ in range(STEPS):
        cuda.copy_up_async(batch, source, 256 * KIB)
        training.step(16 * MIB)
    training.torch.free(batch)
    training.close()


@program
def prefetched_batches(cuda):
    """Two buffers on the device and two pinned ones, in turn."""
    training = Training(cuda)
    batches = [training.torch.allocate(MIB) for _ in range(2)]
    hosts = [cuda.pin(MIB) for _ in range(2)]
    for step in range(STEPS):
        cuda.copy_up_async(batches[step % 2], hosts[step % 2], MIB)
        training.step()
    cuda.synchronize()
    for host in hosts:
        cuda.unpin(host)
    training.free(batches)
    training.close()


@program
def checkpoint_to_host(cuda):
    """The weights come down every forty steps, into memory that is not pinned."""
    training = Training(cuda, MIB)
    _buffer, saved = zoo_cuda.pageable(LAYERS * MIB)
    for step in range(STEPS):
        training.step(16 * MIB)
        if step % 40 == 39:
            for number, block in enumerate(training.weights):
                cuda.copy_down_async(saved + number * MIB, block, MIB)
    training.close()


@program
def models_that_take_turns(cuda):
    """The weights of the one that waits lie on the host."""
    training = Training(cuda, MIB)
    _buffer, parked = zoo_cuda.pageable(LAYERS * MIB)
    for _ in range(3):
        for _ in range(STEPS):
            training.step(12 * MIB)
        for number, block in enumerate(training.weights):
            cuda.copy_down_async(parked + number * MIB, block, MIB)
        for number, block in enumerate(training.weights):
            cuda.copy_up_async(block, parked + number * MIB, MIB)
    training.close()


@program
def cache_that_fills(cuda):
    """Results by key; after the first quarter every key is there."""
    noise, cache = random.Random(3), {}
    for _ in range(400):
        scratch = cuda.alloc_async(256 * KIB)
        key = noise.randrange(24)
        if key not in cache:
            cache[key] = cuda.alloc_async(256 * KIB)
        cuda.free_async(scratch)
    for block in cache.values():
        cuda.free_async(block)


@program
def bounded_history(cuda):
    torch, history = zoo_cuda.Allocator(cuda), collections.deque()
    for _ in range(400):
        history.append(torch.allocate(128 * KIB))
        if len(history) > 64:
            torch.free(history.popleft())
    for block in history:
        torch.free(block)
    torch.empty_cache()


@program
def replay_buffer(cuda):
    """Filled once, then each entry replaces another."""
    training, noise, kept = Training(cuda), random.Random(3), []
    for _ in range(3 * STEPS):
        entry = training.torch.allocate(64 * KIB)
        training.step(64 * KIB)
        if len(kept) < 64:
            kept.append(entry)
            continue
        place = noise.randrange(64)
        training.torch.free(kept[place])
        kept[place] = entry
    training.free(kept)
    training.close()


@program
def outputs_of_an_epoch(cuda):
    """Kept until the epoch's metric is computed: a slow sawtooth."""
    model = Training(cuda)
    for _ in range(5):
        outputs = []
        for _ in range(60):
            outputs.append(model.torch.allocate(64 * KIB))
            model.free(model.forward(64 * KIB))
        cuda.copy_to_host(outputs[-1], 4)
        model.free(outputs)
    model.close()


@program
def growing_batch(cuda):
    training = Training(cuda)
    for step in range(STEPS):
        training.step(256 * KIB << step // 30)
    training.close()


@program
def growing_sequence(cuda):
    training = Training(cuda)
    for step in range(STEPS):
        training.step(64 * KIB + step * 8 * KIB)
    training.close()


@program
def generation_with_cache(cuda):
    """Keys and values are replaced by ones that are a token longer, request by request."""
    torch = zoo_cuda.Allocator(cuda)
    for _ in range(6):
        cache = [torch.allocate(64 * KIB) for _ in range(LAYERS)]
        for token in range(40):
            for layer in range(LAYERS):
                longer = torch.allocate((token + 2) * 64 * KIB)
                torch.free(cache[layer])
                cache[layer] = longer
        for block in cache:
            torch.free(block)
    torch.empty_cache()


@program
def one_long_generation(cuda):
    """The same for one request that takes the whole run, without a framework."""
    cache = [cuda.alloc_async(64 * KIB) for _ in range(LAYERS)]
    for token in range(200):
        for layer in range(LAYERS):
            longer = cuda.alloc_async((token + 2) * 64 * KIB)
            cuda.free_async(cache[layer])
            cache[layer] = longer
    for block in cache:
        cuda.free_async(block)


@program
def pages_of_a_cache(cuda):
    """Requests of random length take pages from the framework and give them back."""
    torch, noise, running = zoo_cuda.Allocator(cuda), random.Random(3), []
    for _ in range(600):
        if len(running) < 8:
            running.append([[], noise.randrange(10, 60)])
        for request in running:
            request[0].append(torch.allocate(64 * KIB))
        for request in [one for one in running if len(one[0]) >= one[1]]:
            running.remove(request)
            for block in request[0]:
                torch.free(block)
    for pages, _ in running:
        for block in pages:
            torch.free(block)
    torch.empty_cache()


@program
def buffer_that_doubles(cuda):
    """Twice as large when it is full."""
    length, buffer = 1, cuda.alloc(64 * KIB)
    for step in range(500):
        scratch = cuda.alloc_async(64 * KIB)
        if step == length:
            length *= 2
            larger = cuda.alloc(length * 64 * KIB)
            cuda.free(buffer)
            buffer = larger
        cuda.free_async(scratch)
    cuda.free(buffer)


@program
def compiled_at_first(cuda):
    """Candidates are tried with workspaces of their own before the work begins."""
    workspaces = [cuda.alloc(MIB << number % 5) for number in range(60)]
    for block in workspaces:
        cuda.set_bytes(block, 0, MIB)
        cuda.free(block)
    training = Training(cuda)
    for _ in range(STEPS):
        training.step()
    training.close()


@program
def evaluation_every_20_steps(cuda):
    """With a larger batch, whose outputs are kept until the end of it."""
    training = Training(cuda)
    for step in range(STEPS):
        training.step()
        if step % 20 != 19:
            continue
        outputs = []
        for _ in range(8):
            activations = training.forward(4 * MIB)
            outputs.append(training.torch.allocate(128 * KIB))
            training.free(activations)
        cuda.copy_to_host(outputs[0], 4)
        training.free(outputs)
    training.close()


@program
def average_made_anew(cuda):
    """The average of the weights is a new tensor in each step; it begins late."""
    training, average = Training(cuda), []
    for step in range(STEPS):
        training.step()
        if step >= 40:
            new = [training.torch.allocate(2 * MIB) for _ in range(LAYERS)]
            training.free(average)
            average = new
    training.free(average)
    training.close()


@program
def accumulated_gradients(cuda):
    training = Training(cuda)
    for step in range(STEPS):
        training.backward(training.forward())
        if step % 8 == 7:
            training.optimizer.step()
            training.optimizer.zero_grad()
    training.close()


@program
def layers_unfrozen(cuda):
    """One layer more has a gradient and state every twenty steps."""
    training, state = Training(cuda), []
    for step in range(STEPS):
        if step % 20 == 0:
            state.append(training.torch.allocate(2 * MIB))
        training.step()
    training.free(state)
    training.close()


@program
def cache_emptied_after_each_epoch(cuda):
    """The allocator's cache goes back to the driver ten times."""
    training = Training(cuda, 4 * MIB)
    for _ in range(10):
        for _ in range(STEPS // 10):
            training.step(16 * MIB)
        training.torch.empty_cache()
    training.close()


@program
def staging_buffer_of_each_epoch(cuda):
    training = Training(cuda)
    for _ in range(10):
        host = cuda.pin(4 * MIB)
        for _ in range(STEPS // 10):
            cuda.copy_up_async(training.weights[0], host, MIB)
            training.step()
        cuda.unpin(host)
    training.close()


@program
def swapped_buffers(cuda):
    front, back = cuda.alloc(4 * MIB), cuda.alloc(4 * MIB)
    for _ in range(200):
        scratch = cuda.alloc_async(MIB)
        cuda.set_bytes(back, 1, 4 * MIB)
        front, back = back, front
        cuda.free_async(scratch)
    cuda.free(front)
    cuda.free(back)


@program
def search_over_widths(cuda):
    """A larger model in every trial, dropped before the next."""
    for width in range(1, 7):
        training = Training(cuda, width * 512 * KIB)
        for _ in range(20):
            training.step()
        training.close()


@program
def search_for_the_largest_batch(cuda):
    """Doubles the request while it stays below what is free."""
    free_bytes, size = cuda.memory_info()[0], 16 * MIB
    while size < free_bytes // 2:
        cuda.free(cuda.alloc(size))
        size *= 2
    training = Training(cuda)
    for _ in range(STEPS):
        training.step()
    training.close()


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PROGRAMS))
        return
    PROGRAMS[sys.argv[1]](zoo_cuda.Cuda())


if __name__ == "__main__":
    main()
