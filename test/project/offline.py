"""Run a command that dies if it, or a child of it, makes an Internet socket.

Usage: python offline.py COMMAND ARGUMENT...
"""

import ctypes
import os
import platform
import socket
import struct
import sys

# The number of socket(2), and what seccomp calls the architecture.
SOCKET_CALLS = {"x86_64": (41, 0xC000003E), "aarch64": (198, 0xC00000B7)}
SUPPORTED = sys.platform == "linux" and platform.machine() in SOCKET_CALLS

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def forbid_network() -> None:
    """Let the kernel kill this process and its children when they call socket() for IPv4 or IPv6."""
    call, architecture = SOCKET_CALLS[platform.machine()]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 5, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 2, 0, socket.AF_INET),
        (_EQUAL, 1, 0, socket.AF_INET6),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _KILL_PROCESS),
    ]
    program = _Program(len(code), b"".join(struct.pack("=HBBI", *line) for line in code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    forbid_network()
    os.execvp(sys.argv[1], sys.argv[1:])
