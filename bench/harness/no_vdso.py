#!/usr/bin/env python3
"""Runs a command that does not learn from the kernel where its vDSO is: `no_vdso.py COMMAND ...`.

Valgrind takes the vDSO away from what it runs, and hides it in the auxiliary vector. A program that
asks the kernel for the vector itself, as the crate rustix does, would use what is not there. Here
the kernel does not answer, and the program reads the file that Valgrind rewrites.
"""
import ctypes
import errno
import os
import platform
import struct
import sys

PRCTL = {"x86_64": 157, "aarch64": 167}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_AUXV = 22, 38, 0x41555856
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
# Instructions of a classic BPF program, and where it finds a system call's number and argument.
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, ARGUMENT = 0, 16


def hide():
    """Refuses `prctl(PR_GET_AUXV)` to this process and all that it becomes."""
    number = PRCTL.get(platform.machine())
    if number is None:
        return
    program = [
        (LOAD, 0, 0, NUMBER),
        (IF_EQUAL, 0, 3, number),
        (LOAD, 0, 0, ARGUMENT),
        (IF_EQUAL, 0, 1, PR_GET_AUXV),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EINVAL),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in program))
    filters = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
            PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(filters), 0, 0):
        raise OSError(ctypes.get_errno(), "cannot hide the vDSO")


if __name__ == "__main__":
    hide()
    os.execvp(sys.argv[1], sys.argv[1:])
