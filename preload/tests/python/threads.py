"""Threads, queues, sockets and child processes of Python: its lock is a mutex and a condition variable."""

import concurrent.futures
import queue
import socket
import subprocess
import threading
import time

box, out = queue.Queue(10), []


def produce(number):
    for step in range(100):
        box.put(number * 1000 + step)


def consume():
    while (value := box.get()) is not None:
        out.append(value)


producers = [threading.Thread(target=produce, args=(number,)) for number in range(50)]
consumers = [threading.Thread(target=consume) for _ in range(20)]
for thread in producers + consumers:
    thread.start()
for thread in producers:
    thread.join()
for _ in consumers:
    box.put(None)
for thread in consumers:
    thread.join()
assert sum(out) == sum(range(50)) * 1000 * 100 + 50 * sum(range(100))

start = time.monotonic()
assert not threading.Event().wait(0.02) and time.monotonic() - start >= 0.02

listener = socket.create_server(("127.0.0.1", 0))


def serve():
    for _ in range(100):
        connection, _ = listener.accept()
        connection.sendall(connection.recv(100))
        connection.close()


def visit(number):
    with socket.create_connection(listener.getsockname()) as connection:
        connection.sendall(b"%d" % number)
        return int(connection.recv(100))


threading.Thread(target=serve).start()
with concurrent.futures.ThreadPoolExecutor(30) as pool:
    assert list(pool.map(visit, range(100))) == list(range(100))

assert subprocess.run(["echo", "a child"], capture_output=True).stdout == b"a child\n"

barrier = threading.Barrier(300)
crowd = [threading.Thread(target=barrier.wait) for _ in range(300)]
for thread in crowd:
    thread.start()
for thread in crowd:
    thread.join()
print("ok")
