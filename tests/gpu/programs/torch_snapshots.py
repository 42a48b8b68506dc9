# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory PyTorch writes as a snapshot, with PyTorch's own counters as the truth.

usage: torch_snapshots.py NAME OUT.pickle

Prints one line of JSON: the counters at the moment of the snapshot, and those at each moment that the program
passes, with the number of events that the file had then. Runs with and without the recorder.
"""

import ctypes
import json
import os
import random
import sys

import torch

MIB = 1 << 20
moments = []


def pass_moment(name):
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    moments.append({"name": name, "events": len(snapshot["device_traces"][0]), **counters()})


def counters():
    stats = torch.cuda.memory_stats()
    names = {"allocated": "allocated_bytes.all", "reserved": "reserved_bytes.all", "active": "active_bytes.all",
             "requested": "requested_bytes.all"}
    return {f"{name}_{which}": stats[f"{key}.{which}"] for name, key in names.items() for which in ("current", "peak")}


def record(entries=1 << 20, **options):
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=entries, **options)


def make_network(width=1024):
    return torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                               torch.nn.Linear(4 * width, width)).cuda()


def train(network, steps=8, width=1024, rows=lambda step: 2048):
    optimizer = torch.optim.Adam(network.parameters())
    for step in range(steps):
        batch = torch.randn(rows(step), width, device="cuda")
        loss = network(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step in (0, steps // 2):
            pass_moment(f"step {step}")
    return float(loss)


def training():
    record()
    return train(make_network())


def ragged():
    record()
    return train(make_network(), steps=12, rows=lambda step: 512 + (step * 977) % 3000)


def late_history():
    network = make_network()
    train(network, steps=2)
    moments.clear()
    record()
    return train(network, rows=lambda step: 2048 + 100 * step)


def cut_ring():
    record(entries=150)
    return train(make_network(), steps=20, rows=lambda step: 512 + (step * 977) % 3000)


def no_history():
    network = make_network()
    torch.cuda.reset_peak_memory_stats()
    return float(network(torch.randn(64, 1024, device="cuda")).sum())


def inference():
    record()
    network = make_network()
    cache = []
    with torch.no_grad():
        for request in range(40):
            cache.append(network(torch.randn(64 + request % 7 * 128, 1024, device="cuda")))
            if request % 5 == 4:
                del cache[request % 3]
            if request == 20:
                pass_moment("request 20")
    return float(sum(one.sum() for one in cache))


def graphs():
    record()
    network = make_network(512)
    static = torch.randn(256, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        network(static)
    torch.cuda.current_stream().wait_stream(side)
    held = []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            out = network(static)
        graph.replay()
        held.append((graph, out))
    pass_moment("captured")
    return float(sum(out.sum() for _, out in held))


def memory_pool():
    record()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [torch.full((MIB,), float(i), device="cuda") for i in range(5)]
    others = [torch.ones(MIB * 3, device="cuda") for _ in range(4)]
    del others[1:3]
    pass_moment("kept")
    result = float(sum(one.sum() for one in kept + others))
    return result


def streams():
    record()
    network = make_network()
    sides = [torch.cuda.Stream() for _ in range(3)]
    total = 0.0
    for round_ in range(6):
        for side in sides:
            batch = torch.randn(512 + 64 * round_, 1024, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side), torch.no_grad():
                total += float(network(batch).sum())
            batch.record_stream(side)
            del batch
        if round_ == 2:
            pass_moment("round 2")
    torch.cuda.synchronize()
    return total


def out_of_memory():
    record()
    torch.cuda.memory.set_per_process_memory_fraction(2048 * MIB / torch.cuda.get_device_properties(0).total_memory)
    network = make_network()
    kept = []
    try:
        while True:
            kept.append(network(torch.randn(4096, 1024, device="cuda")))
    except torch.OutOfMemoryError as error:
        print(json.dumps({"message": str(error)}))
    pass_moment("refused")
    return float(len(kept))


def annotated():
    options = {"global_record_annotations": True, "compile_context": True}
    try:
        record(**options)
    except TypeError:
        record()
    network = make_network()
    with torch.profiler.record_function("my phase"):
        if hasattr(torch.cuda.memory, "_set_memory_metadata"):
            torch.cuda.memory._set_memory_metadata("weights of the teacher")
        kept = torch.ones(MIB, device="cuda")
        if hasattr(torch.cuda.memory, "_set_memory_metadata"):
            torch.cuda.memory._set_memory_metadata("")
    return train(network) + float(kept[0])


def pinned():
    try:
        record(record_pinned_host_memory=True)
    except TypeError:
        record()
    hosts = [torch.empty(size * MIB + 100, dtype=torch.uint8, pin_memory=True) for size in (1, 3, 6)]
    on_card = [host.cuda(non_blocking=True) for host in hosts]
    del hosts[1]
    return float(sum(one.float().sum() for one in on_card) * 0)


def compiled():
    record(**({"augment_with_fx_traces": True} if "augment_with_fx_traces" in
              torch.cuda.memory._record_memory_history.__code__.co_varnames else {}))
    return train(torch.compile(make_network()))


def many_events():
    """Deep stacks as real programs have them, and many events."""
    record(context="all", stacks="all")

    def descend(levels, work):
        return work() if levels == 0 else descend(levels - 1, work)

    def work():
        blocks = [torch.empty(1000 + i, device="cuda") for i in range(100)]
        return len(blocks)

    return float(sum(descend(3 + i % 20, work) for i in range(int(os.environ.get("SNAPSHOT_ROUNDS", "200")))))


def random_blocks():
    """Sizes, lives, streams and emptied caches at random. SNAPSHOT_SEED chooses them, SNAPSHOT_ENTRIES bounds the
    history, SNAPSHOT_LATE is the number of calls before it begins."""
    seed, entries, late = (int(os.environ.get(f"SNAPSHOT_{name}", default)) for name, default in
                           (("SEED", "1"), ("ENTRIES", str(1 << 20)), ("LATE", "0")))
    choose = random.Random(seed)
    streams = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in range(choose.choice((0, 0, 1, 2)))]
    kept = []
    for call in range(late + 3000):
        if call == late:
            record(entries)
        if call == late + 1500:
            pass_moment("half")
        what = choose.random()
        if kept and what < 0.48:
            kept.pop(choose.randrange(len(kept)))
        elif what < 0.9:
            with torch.cuda.stream(choose.choice(streams)):
                kept.append(torch.empty(int(choose.lognormvariate(12, 3)) % (1 << 28) + 1, dtype=torch.uint8,
                                        device="cuda"))
        elif what < 0.95 and kept:
            choose.choice(kept).record_stream(choose.choice(streams))
        elif what < 0.955:
            torch.cuda.empty_cache()
        elif what < 0.96:
            torch.cuda.synchronize()
    return float(len(kept))


def write_as_cpp_does(path):
    """PyTorch's C++ writer, as dynolog calls it: it has no binding, and returns a std::string."""
    library = ctypes.PyDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so"))
    write = library["_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev"]
    text = (ctypes.c_uint64 * 4)()
    write(ctypes.byref(text))
    with open(path, "wb") as file:
        file.write(ctypes.string_at(text[0], text[1]))


def main():
    name, out = sys.argv[1:3]
    torch.manual_seed(20)
    torch.cuda.init()
    result = globals()[name]()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(out)
    truth = {"name": name, "torch": torch.__version__, "result": result.hex(), "at_dump": counters(), "moments": moments,
             "retries": torch.cuda.memory_stats()["num_alloc_retries"]}
    try:
        write_as_cpp_does(out.replace(".pickle", ".cpp.pickle"))
    except (AttributeError, OSError) as error:
        truth["no_cpp_file"] = str(error)
    print(json.dumps(truth), flush=True)


if __name__ == "__main__":
    main()
