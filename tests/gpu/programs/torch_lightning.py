# SPDX-License-Identifier: Apache-2.0
"""Trains with Lightning's Trainer; worker processes load the data into pinned memory.

Truth: PyTorch's counters and live blocks.
"""

import logging
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torch_truth

SAMPLES = 512
BATCH = 32
WIDTH = 64
EPOCHS = 2


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, 1))

    def training_step(self, batch, batch_index):
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.network(inputs), targets)
        if batch_index % 4 == 0:
            print(f"epoch {self.current_epoch} batch {batch_index} loss {loss.item().hex()}")
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    torch_truth.use_deterministic_algorithms()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = TensorDataset(torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, 1))
    loader = DataLoader(data, batch_size=BATCH, num_workers=2, pin_memory=True, persistent_workers=True)
    trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=EPOCHS, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Regression(), loader)

    truth = torch_truth.new_truth("torch_lightning")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
