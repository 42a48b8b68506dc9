# SPDX-License-Identifier: Apache-2.0
"""Trains with the Trainer of Hugging Face transformers, without and then with the callback of gpumemtrace.

Truth: PyTorch's peak of the training, the trainer's count of optimizer steps, and the same parameters bit
for bit with and without the callback. The steps of the first training, which the recorder would find by
itself, are not among those that the callback tells. The model is made from a configuration.
"""

import contextlib
import io
import pathlib
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import torch_truth

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES / "preload" / "api"), str(SOURCES / "tools" / "integrations")]
import gpumemtrace  # noqa: E402: from the sources beside this
from gpumemtrace_transformers import GpumemtraceCallback  # noqa: E402

SAMPLES = 24
SEQUENCE = 32
BATCH = 2
ACCUMULATED = 2
EPOCHS = 2
VOCABULARY = 512


class Counts(TrainerCallback):
    """The number of the trainer's evaluations and saves; newer versions save once more at the end."""

    def __init__(self):
        self.evaluated = self.saved = 0

    def on_evaluate(self, args, state, control, **kwargs):
        self.evaluated += 1

    def on_save(self, args, state, control, **kwargs):
        self.saved += 1


def train(folder, *callbacks):
    """Gives the trainer and the peak of its training; it prints what was learned."""
    torch.manual_seed(20)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=128, n_layer=2, n_head=2))
    tokens = torch.randint(0, VOCABULARY, (SAMPLES, SEQUENCE))
    samples = [{"input_ids": row, "labels": row} for row in tokens]
    arguments = TrainingArguments(
        folder, num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATED, eval_strategy="epoch", save_strategy="epoch", report_to=[],
        disable_tqdm=True, seed=20)
    trainer = Trainer(model, arguments, train_dataset=samples, eval_dataset=samples[:4], callbacks=list(callbacks))
    torch.cuda.reset_peak_memory_stats()
    trainer.train()
    torch.cuda.synchronize()
    return trainer, torch.cuda.max_memory_allocated()


def main():
    torch_truth.use_deterministic_algorithms()
    said = io.StringIO()  # the trainer prints its logs, with times
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        plain, _ = train(folder)
        counts = Counts()
        trainer, train_peak = train(folder, GpumemtraceCallback(), counts)
    assert counts.evaluated >= EPOCHS and counts.saved >= EPOCHS
    steps = trainer.state.global_step
    print(steps, "steps;", sum(p.double().sum().item() for p in trainer.model.parameters()).hex())
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), trainer.model.parameters()))
    lines = [line for line in said.getvalue().splitlines() if line.startswith("gpumemtrace: ")]
    assert len(lines) == (1 if gpumemtrace.is_recorded() else 0), said.getvalue()

    truth = torch_truth.new_truth("torch_transformers_callback")
    source = "the trainer"
    truth.check("steps", "steps", steps + 1, f"{source}, and what follows", combine="count", where={"source": "api"})
    truth.check("steps of no other source", "steps", steps + 1, source, combine="count")
    for name, count in (("train", 1), ("evaluate", counts.evaluated)):
        truth.check(f"ranges {name}", "ranges", count, source, combine="count", where={"name": name})
    truth.check("checkpoints", "marks", counts.saved, source, combine="count", where={"name": "checkpoint"})
    truth.check("peak of train", "ranges", train_peak, "torch.cuda.max_memory_allocated()", field="peak_bytes",
                combine="max", where={"name": "train"})
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
