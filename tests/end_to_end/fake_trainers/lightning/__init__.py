# SPDX-License-Identifier: Apache-2.0
"""What the tests of the callback use of Lightning; its hooks are called in the order of version 2."""

from lightning.pytorch import Callback, Trainer
