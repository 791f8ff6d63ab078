#!/usr/bin/env python3
# safe-run wrapper, contract M0-v0.1.0: finds the safe-run binary and becomes it.
"""Usage: safe_run.py COMMAND [ARGUMENT...]

Runs the safe-run binary with these arguments, for contract M0-v0.1.0. The binary is
SAFE_RUN_BIN, else a safe-run beside this file, else the first safe-run in PATH.
Exit code 127 says that there is none, 126 that it cannot be executed; everything else
is the binary's.
"""
import os
import signal
import sys


def is_binary(path):
    """What begins like this file is a wrapper and no binary."""
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False
    try:
        with open(path, "rb") as f:
            f.readline(4096)
            return not f.readline(4096).startswith(b"# safe-run wrapper")
    except OSError:
        return True  # it may be executed, and not read


def candidates(env):
    named = env.get(b"SAFE_RUN_BIN")
    if named:
        yield named if b"/" in named else b"./" + named
        return
    yield os.path.join(os.fsencode(os.path.dirname(os.path.abspath(__file__))), b"safe-run")
    for folder in env.get(b"PATH", b"").split(b":"):
        yield os.path.join(folder or b".", b"safe-run")


def environment():
    """The caller's own: in a C locale Python has put LC_CTYPE into os.environ."""
    try:
        with open("/proc/self/environ", "rb") as f:
            entries = [e.partition(b"=") for e in f.read().split(b"\0")]
    except OSError:
        return os.environb
    return {name: value for name, sep, value in entries if name and sep}


def main():
    if sys.argv[1:2] == ["--wrapper-help"]:
        sys.stdout.write(__doc__)
        return 0
    env = environment()
    path = next(filter(is_binary, candidates(env)), None)
    if path is None:
        os.write(2, b"safe_run.py: no safe-run binary for contract M0-v0.1.0: set SAFE_RUN_BIN to it,"
                    b" or put it beside this file or in PATH\n")
        return 127
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores these, and the command would too
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(path, [path] + [os.fsencode(a) for a in sys.argv[1:]], env)
    except OSError as e:
        os.write(2, b"safe_run.py: " + path + b": " + e.strerror.encode() + b"\n")
        return 126


if __name__ == "__main__":
    sys.exit(main())
