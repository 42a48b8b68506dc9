# SPDX-License-Identifier: Apache-2.0
"""Second-order optimisation of small networks, restarted with several seeds; each restart makes a network, fits it and
returns its loss. usage: p13_create_graph.py [clean]"""
import gc
import json
import sys
import warnings

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

warnings.filterwarnings("ignore")
RESTARTS, STEPS, WIDTH, ROWS = 10, 5, 2048, 256


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class CurvatureDescent:
    """Steps along the gradient, as long as the curvature in its direction allows."""

    def __init__(self, network, clean, damping=1e-3):
        self.network, self.clean, self.damping = network, clean, damping
        self.parameters = list(network.parameters())

    def gradient(self, loss):
        if self.clean:
            return torch.autograd.grad(loss, self.parameters, create_graph=True)
        loss.backward(create_graph=True)  #!FAULT
        return [parameter.grad for parameter in self.parameters]

    def step(self, inputs, targets):
        self.network.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.network(inputs), targets)
        gradient = self.gradient(loss)
        direction = [g.detach().clone() for g in gradient]
        product = torch.autograd.grad(gradient, self.parameters, grad_outputs=direction)
        curvature = sum((d * p).sum() for d, p in zip(direction, product))
        slope = sum(d.square().sum() for d in direction)
        length = slope / (curvature.abs() + self.damping)
        with torch.no_grad():
            for parameter, d in zip(self.parameters, direction):
                parameter.sub_(length.clamp(max=1.0) * d)
        return loss.item()


def fit(seed, inputs, targets, clean):
    torch.manual_seed(seed)
    network = Network().cuda()  #!ALLOC
    optimizer = CurvatureDescent(network, clean)
    loss = None
    for _ in range(STEPS):
        loss = optimizer.step(inputs, targets)
    return loss


def main():
    clean = "clean" in sys.argv[1:]
    generator = torch.Generator("cuda").manual_seed(5)
    inputs = torch.randn(ROWS, WIDTH, device="cuda", generator=generator)
    targets = torch.tanh(torch.randn(ROWS, WIDTH, device="cuda", generator=generator))
    losses, allocated = [], []
    for seed in range(RESTARTS):
        losses.append(fit(seed, inputs, targets, clean))
        gc.collect()
        torch.cuda.synchronize()
        allocated.append(torch.cuda.memory_allocated())
    network_bytes = 4 * (WIDTH * WIDTH + WIDTH) * 4
    truth = {
        "case": "p13", "mode": "clean" if clean else "faulty", "restarts": RESTARTS,
        "parameters_of_a_network_bytes": network_bytes, "gradients_of_a_network_bytes": network_bytes,
        "allocated_after_first_restart_bytes": allocated[0], "allocated_at_end_bytes": allocated[-1],
        "growth_a_restart_bytes": (allocated[-1] - allocated[0]) // (RESTARTS - 1),
        "max_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_reserved_bytes": torch.cuda.max_memory_reserved(),
        "best_loss_approx": round(min(losses), 3),
    }
    print("TRUTH " + json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
