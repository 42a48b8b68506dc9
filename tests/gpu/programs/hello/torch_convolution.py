# SPDX-License-Identifier: Apache-2.0
"""PyTorch with cuDNN and cuBLAS: a convolution, a product, one training step."""

import torch
from torch import nn

from endings import end

model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loss = model(torch.randn(8, 3, 32, 32, device="cuda")).square().mean()
loss.backward()
optimizer.step()

end(lambda: print(f"loss {loss.item():.3f}"))
