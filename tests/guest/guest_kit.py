"""What the tests of the guest have in common."""

import time


def wait_for(condition, seconds=5):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return False


def sleepers(box, seconds=""):
    return [p for p in box.processes() if p.startswith("sleep " + seconds)]
