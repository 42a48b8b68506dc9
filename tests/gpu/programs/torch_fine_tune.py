# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes low-rank adapters of PEFT with Accelerate, accumulating gradients.

Truth: PyTorch's counters and live blocks.
"""

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

import torch_truth

STEPS = 8
BATCH = 2
SEQUENCE = 64


def main():
    torch_truth.use_deterministic_algorithms()
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    config = LlamaConfig(vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2)
    model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(STEPS):
        tokens = torch.randint(0, 512, (BATCH, SEQUENCE)).to(accelerator.device)
        with accelerator.accumulate(model):
            loss = model(input_ids=tokens, labels=tokens).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        print(f"step {step} loss {loss.item().hex()}")

    truth = torch_truth.new_truth("torch_fine_tune")
    torch_truth.add_torch_checks(truth)
    torch_truth.finish(truth)


if __name__ == "__main__":
    main()
