# SPDX-License-Identifier: Apache-2.0
"""The part of transformers that the tests of the callback use; its hooks are called in the order of versions 4 and 5."""

import types


class TrainerCallback:
    """As there, every hook exists and takes what the trainer gives."""

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *arguments, **more: None
        raise AttributeError(name)


class TrainingArguments(types.SimpleNamespace):
    def __init__(self, num_train_epochs=1, gradient_accumulation_steps=1, world_size=1):
        super().__init__(num_train_epochs=num_train_epochs, world_size=world_size,
                         gradient_accumulation_steps=gradient_accumulation_steps)


class Trainer:
    """model: a function that is called with the name of the phase, in each batch. It evaluates and saves
    behind every epoch; train_dataset is the number of batches."""

    is_world_process_zero = True

    def __init__(self, model, args, train_dataset, callbacks=()):
        self.model, self.args, self.batches, self.callbacks = model, args, train_dataset, callbacks
        self.state = types.SimpleNamespace(is_world_process_zero=self.is_world_process_zero)
        self.control = types.SimpleNamespace(should_evaluate=False, should_save=False)

    def call(self, hook, **more):
        for callback in self.callbacks:
            getattr(callback, hook)(self.args, self.state, self.control, model=self.model, **more)

    def train(self):
        self.call("on_train_begin")
        for _ in range(self.args.num_train_epochs):
            self.call("on_epoch_begin")
            for number in range(self.batches):
                if number % self.args.gradient_accumulation_steps == 0:
                    self.call("on_step_begin")
                self.model("train")
                if (number + 1) % self.args.gradient_accumulation_steps == 0 or number + 1 == self.batches:
                    self.call("on_step_end")
                else:
                    self.call("on_substep_end")
            self.control.should_evaluate = self.control.should_save = True
            self.call("on_epoch_end")
            self.evaluate()
            self.control.should_save = False
            self.call("on_save")
        self.call("on_train_end")

    def evaluate(self):
        self.model("evaluate")
        self.control.should_evaluate = False
        self.call("on_evaluate", metrics={})

    def predict(self, dataset):
        self.model("predict")
        self.call("on_predict", metrics={})
