# SPDX-License-Identifier: Apache-2.0
"""torch.compile imports it before it looks at any code."""
