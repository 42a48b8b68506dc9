# SPDX-License-Identifier: Apache-2.0


def rank_zero_info(text):
    print(text)
