# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning of a masked language model with the Trainer of transformers, on a card that is shared (this process may
use 4.5 GiB of it). Training is fine, the evaluation is not. usage: p07_trainer_eval_logits.py [clean]"""
import json
import os
import re
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
try:
    import torch
    from torch.utils.data import Dataset
    from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments
except Exception as error:
    print(f"MISSING {type(error).__name__}: {error}", flush=True)
    sys.exit(77)

GiB = 1 << 30
VOCABULARY, LENGTH, BATCH, EVALUATED = 30522, 256, 8, 128


class Sentences(Dataset):
    """Random tokens of which every seventh is to be guessed."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, VOCABULARY, (count, LENGTH), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index].clone()
        labels = torch.full_like(ids, -100)
        labels[::7] = ids[::7]
        ids[::7] = 4
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


class Progress(TrainerCallback):
    batches = 0

    def on_prediction_step(self, args, state, control, **kwargs):
        self.batches += 1


def accuracy(prediction):
    guesses, labels = prediction.predictions, prediction.label_ids
    if isinstance(guesses, tuple):
        guesses = guesses[0]
    if guesses.ndim == 3:
        guesses = guesses.argmax(-1)
    asked = labels != -100
    return {"accuracy": float((guesses[asked] == labels[asked]).mean())}


def best_tokens(logits, labels):
    return (logits[0] if isinstance(logits, tuple) else logits).argmax(dim=-1)


def build_model():
    return BertForMaskedLM(BertConfig(vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=4,
                                      num_attention_heads=4, intermediate_size=1024,
                                      max_position_embeddings=LENGTH))


def build_trainer(folder, clean, progress):
    arguments = TrainingArguments(
        output_dir=folder, max_steps=4, per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH,
        learning_rate=1e-4, save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, seed=3)
    return Trainer(model=build_model(), args=arguments, train_dataset=Sentences(64, 1),
                   eval_dataset=Sentences(EVALUATED, 2), compute_metrics=accuracy, callbacks=[progress],
                   preprocess_logits_for_metrics=best_tokens if clean else None)  #!FAULT


def main():
    clean = "clean" in sys.argv[1:]
    torch.manual_seed(0)
    total = torch.cuda.get_device_properties(0).total_memory
    cap = int(4.5 * GiB)
    torch.cuda.set_per_process_memory_fraction(cap / total)
    progress, message, metrics = Progress(), None, {}
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(folder, clean, progress)
        trainer.train()
        torch.cuda.synchronize()
        trained = torch.cuda.max_memory_allocated()
        try:
            metrics = trainer.evaluate()  #!ALLOC
        except torch.OutOfMemoryError as error:
            message = str(error)
    tried = re.search(r"Tried to allocate ([0-9.]+ [KMG]iB)", message or "")
    stats = torch.cuda.memory_stats()
    logits = BATCH * LENGTH * VOCABULARY * 4
    truth = {
        "case": "p07", "mode": "clean" if clean else "faulty", "cap_bytes": cap,
        "logits_of_a_batch_bytes": logits, "evaluation_batches": EVALUATED // BATCH,
        "all_logits_bytes": logits * (EVALUATED // BATCH),
        "batches_done": progress.batches, "out_of_memory": message is not None,
        "tried_to_allocate": tried.group(1) if tried else None,
        "next_concatenation_bytes": logits * (progress.batches + 1) if message else None,
        "max_allocated_in_training_bytes": trained,
        "max_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_reserved_bytes": torch.cuda.max_memory_reserved(),
        "num_ooms": stats.get("num_ooms"), "num_alloc_retries": stats.get("num_alloc_retries"),
        "metrics": sorted(k for k in metrics if "runtime" not in k and "per_second" not in k),
    }
    print("TRUTH " + json.dumps(truth), flush=True)
    return 1 if message else 0


if __name__ == "__main__":
    sys.exit(main())
