# SPDX-License-Identifier: Apache-2.0
"""Trains with Lightning's Trainer, without and then with the callback of gpumemtrace.

Truth: PyTorch's peaks of training and prediction, the trainer's count of optimizer steps, and the same
parameters bit for bit with and without the callback. The steps of the first training, which the recorder
would find by itself, are not among those that the callback tells.
"""

import logging
import pathlib
import sys
import tempfile
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torch_truth

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES / "preload" / "api"), str(SOURCES / "tools" / "integrations")]
import gpumemtrace  # noqa: E402: from the sources beside this
from gpumemtrace_lightning import GpumemtraceCallback  # noqa: E402

BATCHES = 7
BATCH = 32
WIDTH = 64
EPOCHS = 2
ACCUMULATED = 2
RANGES = {"sanity check": 1, "train": 1, "validation": 1 + EPOCHS, "predict": 1, "test": 0}


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, 1))

    def training_step(self, batch, batch_index):
        inputs, targets = batch
        return nn.functional.mse_loss(self.network(inputs), targets)

    def validation_step(self, batch, batch_index):
        self.training_step(batch, batch_index)

    def predict_step(self, batch, batch_index):
        return self.network(batch[0].repeat(4, 1))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Checkpoints(lightning.Callback):
    def __init__(self):
        self.written = 0

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        self.written += 1


class Messages(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def peak_of(run, *arguments):
    torch.cuda.reset_peak_memory_stats()
    run(*arguments)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def train(folder, *callbacks):
    """Gives trainer, model and the peak of its training; it prints what was learned."""
    torch.manual_seed(20)
    data = TensorDataset(torch.randn(BATCHES * BATCH, WIDTH), torch.randn(BATCHES * BATCH, 1))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    saving = ModelCheckpoint(folder, save_top_k=-1, save_on_train_epoch_end=True)
    trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=EPOCHS, logger=False,
                                accumulate_grad_batches=ACCUMULATED, callbacks=[saving, *callbacks],
                                enable_progress_bar=False, enable_model_summary=False)
    model = Regression()
    peak = peak_of(trainer.fit, model, loader, loader)
    print(trainer.global_step, "steps;", sum(p.double().sum().item() for p in model.parameters()).hex())
    return trainer, model, loader, peak


def main():
    torch_truth.use_deterministic_algorithms()
    warnings.simplefilter("ignore")
    messages = Messages()
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).addHandler(messages)
    with tempfile.TemporaryDirectory() as folder:
        plain = train(folder)[1]
        checkpoints = Checkpoints()
        trainer, model, loader, train_peak = train(folder, GpumemtraceCallback(), checkpoints)
    assert checkpoints.written >= EPOCHS
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters()))
    predict_peak = peak_of(trainer.predict, model, loader)
    lines = [text for text in messages.texts if text.startswith("gpumemtrace: ")]
    assert len(lines) == (1 if gpumemtrace.is_recorded() else 0), messages.texts

    truth = torch_truth.new_truth("torch_lightning_callback")
    source = "the trainer"
    truth.check("steps", "steps", trainer.global_step + 1, f"{source}, and what follows", combine="count",
                where={"source": "api"})
    truth.check("steps of no other source", "steps", trainer.global_step + 1, source, combine="count")
    for name, count in RANGES.items():
        truth.check(f"ranges {name}", "ranges", count, source, combine="count", where={"name": name})
    truth.check("checkpoints", "marks", checkpoints.written, source, combine="count", where={"name": "checkpoint"})
    for name, peak in (("train", train_peak), ("predict", predict_peak)):
        truth.check(f"peak of {name}", "ranges", peak, "torch.cuda.max_memory_allocated()", field="peak_bytes",
                    combine="max", where={"name": name})
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
