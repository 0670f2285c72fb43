# SPDX-License-Identifier: Apache-2.0
"""Functions that programs of test_executor.py call."""
import os
import time


def sleep_and_print(seconds, text):
    time.sleep(seconds)
    print(text)


def call_until_all_are_there(executor, directory, n):
    """Prints which pools have served. As it calls again and again, its pool is not idle before n programs have come."""
    pools = {executor.submit(os.getppid).result()}
    with open(os.path.join(directory, str(os.getpid())), 'w', encoding='ascii'):
        pass
    while len(os.listdir(directory)) < n:
        pools.add(executor.submit(os.getppid).result())
        time.sleep(0.05)
    print(*pools)
