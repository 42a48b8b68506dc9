# SPDX-License-Identifier: Apache-2.0
"""An inference service that captures one CUDA graph for each image size that it serves.
usage: p09_graph_per_size.py [clean]"""
import json
import sys

try:
    import torch
    import torchvision
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

SIZES = list(range(224, 480, 32))
BATCH = 16


class Captured:
    """A graph with the tensors that it reads and writes."""

    def __init__(self, graph, static_input, static_output):
        self.graph, self.input, self.output = graph, static_input, static_output

    def __call__(self, images):
        self.input.copy_(images)
        self.graph.replay()
        return self.output.clone()


class Service:
    def __init__(self, share_pool):
        self.model = torchvision.models.resnet50(weights=None).cuda().eval()
        self.side = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle() if share_pool else None
        self.graphs = {}

    def warm_up(self, images):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            for _ in range(2):
                self.model(images)
        torch.cuda.current_stream().wait_stream(self.side)

    @torch.no_grad()
    def capture(self, size):
        static = torch.zeros(BATCH, 3, size, size, device="cuda")
        self.warm_up(static)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):  #!FAULT
            output = self.model(static)  #!ALLOC
        self.graphs[size] = Captured(graph, static, output)

    def capture_all(self, sizes):
        for size in sizes:
            self.capture(size)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def serve(self, images):
        return self.graphs[images.shape[-1]](images)


def private_pools():
    pools = {}
    for segment in torch.cuda.memory_snapshot():
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        row = pools.setdefault(pool, [0, 0])
        row[0] += segment["total_size"]
        row[1] += segment["allocated_size"]
    default = pools.pop((0, 0), [0, 0])
    return default, pools


def main():
    clean = "clean" in sys.argv[1:]
    torch.manual_seed(0)
    service = Service(share_pool=clean)
    # With one pool the largest comes first, so that the others fit into what it took.
    service.capture_all(sorted(SIZES, reverse=True) if clean else SIZES)
    total = 0.0
    for turn in range(3):
        for size in SIZES:
            images = torch.full((BATCH, 3, size, size), 0.01 * (turn + 1), device="cuda")
            total += float(service.serve(images).mean())
    torch.cuda.synchronize()
    default, pools = private_pools()
    truth = {
        "case": "p09", "mode": "clean" if clean else "faulty", "graphs": len(service.graphs),
        "private_pools": len(pools),
        "private_reserved_bytes": sum(row[0] for row in pools.values()),
        "private_allocated_bytes": sum(row[1] for row in pools.values()),
        "largest_private_pool_bytes": max((row[0] for row in pools.values()), default=0),
        "default_reserved_bytes": default[0], "default_allocated_bytes": default[1],
        "allocated_bytes": torch.cuda.memory_allocated(), "reserved_bytes": torch.cuda.memory_reserved(),
        "max_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_reserved_bytes": torch.cuda.max_memory_reserved(),
        "output_approx": round(total, 2),
    }
    print("TRUTH " + json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
