"""Waits for the engine where torch/autograd/graph.py does."""


def _engine_run_backward(engine, stop_file):
    return engine.run_engine(stop_file)
