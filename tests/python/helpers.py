# SPDX-License-Identifier: Apache-2.0
"""Functions that programs of test_executor.py call."""
import time


def sleep_and_print(seconds, text):
    time.sleep(seconds)
    print(text)
