# SPDX-License-Identifier: Apache-2.0
"""Waits for the engine where torch/autograd/graph.py does."""


def _engine_run_backward(engine, stop_file, function):
    return engine.run_engine(stop_file, function)
