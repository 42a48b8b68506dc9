# SPDX-License-Identifier: Apache-2.0
"""A callback for Lightning's Trainer: steps and phases of the training in the recording.

    trainer = lightning.Trainer(callbacks=[GpumemtraceCallback()])

It works with `lightning` and with `pytorch_lightning`. This file, gpumemtrace_training.py and
gpumemtrace.py belong on PYTHONPATH where they are not installed; with summary=True also
gpumemtrace_reader.py, which finds the program.
"""

import importlib.util
import sys

import gpumemtrace
from gpumemtrace_training import Ranges, text_for_log

# That which the program has imported, if both are installed.
if "lightning.pytorch" not in sys.modules and (
        "pytorch_lightning" in sys.modules or importlib.util.find_spec("lightning") is None):
    import pytorch_lightning as lightning
else:
    import lightning.pytorch as lightning


class GpumemtraceCallback(lightning.Callback):
    """Tells the recorder what the trainer does; does nothing in a process that is not recorded.

    - A step is one of the optimizer: with accumulated gradients it has several batches. What follows
      the last one is a step that does not end.
    - Ranges: `sanity check`, `train`, `validation`, `test`, `predict`. Mark: `checkpoint`, before one is
      written.
    - Behind the first fit, validate, test or predict, and behind an error, rank zero logs where the
      trace is, and with summary=True what `gpumemtrace summary` says of it then.
    - It reads no tensor, waits for nothing but that summary, and changes nothing of the trainer.
    """

    def __init__(self, summary=False):
        self._with_summary = summary
        self._ranges = Ranges()
        self._step = None  # the trainer's global_step when our last one began
        self._is_told = False

    def on_sanity_check_start(self, trainer, pl_module):
        self._ranges.begin("sanity check")

    def on_sanity_check_end(self, trainer, pl_module):
        self._ranges.end("sanity check")

    def on_train_start(self, trainer, pl_module):
        self._step = None
        self._ranges.begin("train")

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            gpumemtrace.step()

    def on_train_end(self, trainer, pl_module):
        gpumemtrace.step()  # what follows belongs to no step of the training
        self._ranges.end("train")

    def on_validation_start(self, trainer, pl_module):
        self._ranges.begin("validation")

    def on_validation_end(self, trainer, pl_module):
        self._ranges.end("validation")

    def on_test_start(self, trainer, pl_module):
        self._ranges.begin("test")

    def on_test_end(self, trainer, pl_module):
        self._ranges.end("test")

    def on_predict_start(self, trainer, pl_module):
        self._ranges.begin("predict")

    def on_predict_end(self, trainer, pl_module):
        self._ranges.end("predict")

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        gpumemtrace.mark("checkpoint")

    def on_exception(self, trainer, pl_module, exception):
        self._ranges.end_all()
        self._tell(trainer)

    def teardown(self, trainer, pl_module, stage):
        self._tell(trainer)

    def _tell(self, trainer):
        if self._is_told or not trainer.is_global_zero:
            return
        text = text_for_log(trainer.world_size, self._with_summary)
        if text is not None:
            self._is_told = True
            lightning.utilities.rank_zero_info(text)
