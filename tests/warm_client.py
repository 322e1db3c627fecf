"""Stands for a Python process: has the fork server of warm_start.py run a program with the arguments, environment, folder and
streams of this process, passes signals on, and exits as the program does. It imports little, so it starts in milliseconds.

    python -IS warm_client.py SOCKET -m MODULE ARGUMENT…
    python -IS warm_client.py SOCKET -c CODE ARGUMENT…
    python -IS warm_client.py SOCKET SCRIPT ARGUMENT…

-P before that leaves the folder out of the module search path; -u, with which xdist starts its workers, changes nothing.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    address, *command = sys.argv[1:]
    safe_path = command[0] == "-P"
    command = command[safe_path or command[0] == "-u" :]
    program, arguments = (command[:2], command[2:]) if command[0] in ("-m", "-c") else (command[:1], command[1:])
    request = {"program": program, "arguments": arguments, "folder": os.getcwd(), "env": dict(os.environ), "terminal": False}
    request["safe_path"] = safe_path
    message = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(address)
        socket.send_fds(channel, [len(message).to_bytes(4, "big")], [0, 1, 2])
        channel.sendall(message)
        process = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda sent, _frame: os.kill(process, sent))
        code = int(channel.recv(16) or b"1")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
