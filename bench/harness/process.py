"""Starts and ends programs, by their own process id only, whatever ends the benchmark."""
import contextlib
import os
import resource
import signal
import socket
import subprocess
import time

# How long a server may take to listen, and to end after it was asked to.
START_SECONDS = 120
STOP_SECONDS = 30


class Trouble(Exception):
    """Something a reader of the terminal must mend; shown without a traceback."""


def end_on_signals():
    """SIGTERM ends the benchmark as Ctrl-C does: through every `finally`."""
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)


def all_descriptors():
    """Soft limit to hard limit, in the child only: every server may use what the machine gives."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def running(command, ports, log, **options):
    """A server in the background: yields its process when all `ports` accept, ends it after."""
    for port in ports:
        if accepts(port):
            raise Trouble(f"port {port} is in use: choose others with --port")
    with open(log, "wb") as out:
        # A session of its own: Ctrl-C reaches the benchmark first, which then ends the server.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   start_new_session=True, preexec_fn=all_descriptors, **options)
    try:
        for port in ports:
            wait_for(port, process, log)
        yield process
    finally:
        stop(process)


def accepts(port, host="127.0.0.1"):
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=2):
        return True
    return False


def wait_for(port, process, log, host="127.0.0.1"):
    end = time.monotonic() + START_SECONDS
    while not accepts(port, host):
        if process.poll() is not None:
            raise Trouble(f"{process.args[0]} ended with code {process.returncode}:\n{tail(log)}")
        if time.monotonic() > end:
            raise Trouble(f"{process.args[0]} does not listen on {host}:{port}:\n{tail(log)}")
        time.sleep(0.1)


def stop(process):
    for ask in (process.terminate, process.kill):
        if process.poll() is not None:
            return
        ask()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)


def tail(path, lines=15):
    with open(path, errors="replace") as file:
        return "".join(file.readlines()[-lines:])


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
