"""Calls one function of a library and writes its reply to standard output."""

# The shim imports what it needs before a module of the library can have the same name.
import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback


async def settled(promise):
    return await promise


def call(request):
    target = importlib.import_module(request["import_path"])
    for name in request["function"].split("."):
        target = getattr(target, name)
    result = target(*request["args"], **request["kwargs"])
    return asyncio.run(settled(result)) if inspect.isawaitable(result) else result


def answer(request):
    try:
        return json.dumps({"result": call(request)}, allow_nan=False, ensure_ascii=False)
    except Exception as error:
        traceback.print_exc()
        try:
            message = str(error).encode("utf-8", "replace").decode()
        except Exception:
            message = ""
        return json.dumps({"error": {"type": type(error).__name__, "message": message}})


def main():
    request = json.loads(sys.stdin.buffer.readline())
    out = os.dup(1)  # the library may close its own
    sys.dont_write_bytecode = True  # a cache beside a module would be an output
    # Modules that are installed come before those of the work folder.
    sys.path[:] = [p for p in sys.path if p != os.path.dirname(__file__)] + [os.getcwd()]
    line = "\n" + request["reply"] + " " + answer(request) + "\n"
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # the library has closed or replaced it
    os.set_blocking(out, True)
    rest = line.encode("utf-8", "backslashreplace")
    while rest:
        rest = rest[os.write(out, rest):]
    os._exit(0)


if __name__ == "__main__":
    main()
