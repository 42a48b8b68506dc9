# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT-2 of Hugging Face transformers with gradient checkpointing and generates text.

Truth: PyTorch's counters and live blocks. The model is made from a configuration, so nothing is
downloaded.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import torch_truth

STEPS = 8
BATCH = 4
SEQUENCE = 128
NEW_TOKENS = 16


def main():
    torch_truth.use_deterministic_algorithms()
    device = torch.device("cuda", 0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1024, n_positions=256, n_embd=256, n_layer=4, n_head=4)).to(device)
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        tokens = torch.randint(0, 1024, (BATCH, SEQUENCE)).to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item().hex()}")
    model.eval()
    generated = model.generate(tokens[:1, :8], max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0)
    print("generated", generated[0].tolist())

    truth = torch_truth.new_truth("torch_language_model")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
