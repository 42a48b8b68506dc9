# SPDX-License-Identifier: Apache-2.0
"""A callback for the Trainer of Hugging Face transformers: steps and phases in the recording.

    trainer = Trainer(model, arguments, callbacks=[GpumemtraceCallback()], ...)

This file, gpumemtrace_training.py and gpumemtrace.py belong on PYTHONPATH where they are not installed;
with summary=True also gpumemtrace_reader.py, which finds the program.
"""

import gpumemtrace
from gpumemtrace_training import Ranges, text_for_log
from transformers import TrainerCallback


class GpumemtraceCallback(TrainerCallback):
    """Tells the recorder what the trainer does; does nothing in a process that is not recorded.

    - A step is one of the optimizer: with accumulated gradients it has several batches. What follows
      the last one is a step that does not end.
    - Ranges: `train`, and in it `evaluate`; of several evaluation datasets the first. Mark: `checkpoint`,
      when one was saved. Calls of evaluate() and predict() by the program have no range: the trainer does
      not say when they begin.
    - At the end of a training rank zero prints where the trace is, and with summary=True what
      `gpumemtrace summary` says of it then.
    - It reads no tensor, waits for nothing but that summary, and changes nothing of the trainer.
    """

    def __init__(self, summary=False):
        self._with_summary = summary
        self._ranges = Ranges()

    def on_train_begin(self, args, state, control, **kwargs):
        self._ranges.end_all()  # of a training that ended by an error, which nobody tells
        self._ranges.begin("train")

    def on_step_begin(self, args, state, control, **kwargs):
        gpumemtrace.step()

    def on_step_end(self, args, state, control, **kwargs):
        self._begin_what_follows(control)

    def on_epoch_end(self, args, state, control, **kwargs):
        self._begin_what_follows(control)

    def _begin_what_follows(self, control):
        """No hook says that an evaluation begins: the trainer starts it next where a callback asks for it."""
        if control.should_evaluate:
            self._ranges.begin("evaluate")

    def on_evaluate(self, args, state, control, **kwargs):
        self._ranges.end("evaluate")

    def on_save(self, args, state, control, **kwargs):
        gpumemtrace.mark("checkpoint")

    def on_train_end(self, args, state, control, **kwargs):
        gpumemtrace.step()  # what follows belongs to no step of the training
        self._ranges.end_all()
        text = text_for_log(args.world_size, self._with_summary) if state.is_world_process_zero else None
        if text is not None:
            print(text)
