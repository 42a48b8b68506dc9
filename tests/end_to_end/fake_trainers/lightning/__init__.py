# SPDX-License-Identifier: Apache-2.0
"""The part of Lightning that the tests of the callback use; its hooks are called in the order of version 2."""

from lightning.pytorch import Callback, Trainer
