# SPDX-License-Identifier: Apache-2.0
"""Also copied as the package pytorch_lightning."""

from . import utilities


class Callback:
    """As there, every hook exists and takes what the trainer gives."""

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *arguments: None
        raise AttributeError(name)

    def teardown(self, trainer, pl_module, stage):
        pass


class Trainer:
    """model: a function that is called with the name of the phase, in each batch."""

    world_size = 1
    is_global_zero = True

    def __init__(self, max_epochs=1, accumulate_grad_batches=1, callbacks=()):
        self.max_epochs = max_epochs
        self.accumulated = accumulate_grad_batches
        self.callbacks = callbacks
        self.global_step = 0

    def call(self, hook, *arguments):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *arguments)

    def fit(self, model, batches):
        try:
            self.call("on_sanity_check_start", model)
            self.evaluate("validation", model)
            self.call("on_sanity_check_end", model)
            self.call("on_train_start", model)
            for _ in range(self.max_epochs):
                for number in range(batches):
                    self.call("on_train_batch_start", model, None, number)
                    model("train")
                    self.global_step += (number + 1) % self.accumulated == 0 or number + 1 == batches
                    self.call("on_train_batch_end", model, None, None, number)
                self.evaluate("validation", model)
                self.call("on_save_checkpoint", model, {})
            self.call("on_train_end", model)
        except Exception as error:
            self.call("on_exception", model, error)
            raise
        self.call("teardown", model, "fit")

    def test(self, model):
        self.evaluate("test", model)
        self.call("teardown", model, "test")

    def predict(self, model):
        self.evaluate("predict", model)
        self.call("teardown", model, "predict")

    def evaluate(self, name, model):
        self.call(f"on_{name}_start", model)
        model(name)
        self.call(f"on_{name}_end", model)
