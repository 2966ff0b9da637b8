"""A process of the host with a secret in memory and one in an open file, that says what is done to it.

Prints `PID ADDRESS FD` and then a line SIGNALLED for each signal, until its input ends.
"""
import ctypes
import os
import signal
import sys

secret = ctypes.create_string_buffer(sys.argv[1].encode())
fd = os.open(sys.argv[2], os.O_RDONLY)
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"SIGNALLED\n"))
# Changing ids made the process untraceable; a victim of the same user normally is not.
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
print(os.getpid(), ctypes.addressof(secret), fd, flush=True)
while os.read(0, 1):
    pass
