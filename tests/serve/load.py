# SPDX-License-Identifier: MIT
"""`multihead serve` under load, from honest and from hostile clients; all on 127.0.0.1, for about a minute.

    python3 tests/serve/load.py BUILD [--sanitized] [--continue]

    1. alone       some texts are translated, with --continue continued by a causal model; these answers are what all later ones must equal
    2. wrk         GET / and POST as fast as they come
    3. hostile     clients that hang up, say nothing, drip, send too much, read nothing, or talk nonsense; a client that
                   behaves gets its answer all the same, soon
    4. overload    more requests than may wait: some get 503 with Retry-After, nobody waits beyond --timeout
    5. afterwards  memory, descriptors and threads are back, SIGTERM ends it with exit code 0

With --sanitized, for a build that takes ten times as long and keeps its memory: 1, 3 and the rest of 5.
"""
import json
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
SANITIZED = "--sanitized" in sys.argv
TIMEOUT, QUEUE, THREADS = 60 if SANITIZED else 6, 16, 2  # of the server
RSS_RATIO = float("inf") if SANITIZED else 1.3
HONEST_SECONDS = 60 if SANITIZED else 15  # until a client that behaves has its translation, whatever others do
SECONDS = {"get": 4, "post": 6, "hostile": 12, "overload": 2 * TIMEOUT}

CONTINUES = "--continue" in sys.argv
MODEL, PATH = ("en-lm", "/look") if CONTINUES else ("fr-en", "/translate")
TEXTS = ["The cat", "Once upon a time", "She opened the door and", "It was", "The dog is"] if CONTINUES else [
         "Oui.", "Bonjour !", "Merci beaucoup.", "Je suis fatigué.", "Où est la gare ?", "Le chat noir dort.",
         "Tom parle français.", "Il fait beau aujourd'hui."]
LONG = "The little black cat sleeps on the big red rug of the house. " * 12 if CONTINUES else (
    "Le petit chat noir dort sur le grand tapis rouge de la maison. " * 8)


def say(text):
    print(f"serve: {text}", flush=True)


# ---- the server -------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BUILD / "multihead", "serve", "-m", ROOT / "models" / MODEL, "--port", "0", "--threads", str(THREADS),
             "--queue", str(QUEUE), "--timeout", str(TIMEOUT)], stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])

    def state(self):
        """Resident memory in MiB, open descriptors, threads."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        return (int(status["VmRSS"].split()[0]) / 1024, len(list((folder / "fd").iterdir())), int(status["Threads"]))

    def settle(self, seconds=8):
        """The state once connections have gone and memory has been given back."""
        end = time.monotonic() + seconds
        state = self.state()
        while time.monotonic() < end:
            time.sleep(1.5)
            before, state = state, self.state()
            if before == state:
                break
        return state


class Closed(Exception):
    """The connection ended without a whole answer."""


def read_answer(s):
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(1 << 16)
        if not more:
            raise Closed(data)
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
    size = int(headers["content-length"])
    parts, got = [body], len(body)
    while got < size:
        parts.append(s.recv(1 << 20))
        got += len(parts[-1])
        if not parts[-1]:
            raise Closed(head)
    return int(lines[0].split()[1]), headers, b"".join(parts)


def connect(port, seconds=60):
    return socket.create_connection(("127.0.0.1", port), timeout=seconds)


def request_of(port, text):
    body = json.dumps({"text": text}).encode()
    return (f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def ask(port, text):
    with connect(port) as s:
        s.sendall(request_of(port, text))
        return read_answer(s)


# ---- hostile clients: each does one turn; they are called again and again ------------------------------------------------


def connections(port, count):
    made = []
    for _ in range(count):
        try:
            made.append(connect(port, 1))
        except OSError:
            break
    return made


def close_all(sockets):
    for s in sockets:
        s.close()


def send(s, data):
    """Whether the server still listens; it may well have hung up."""
    try:
        s.setblocking(False)
        s.send(data)
        return True
    except BlockingIOError:
        return True
    except OSError:
        return False


def hang_up(port, _):
    for s in connections(port, 200):
        send(s, request_of(port, LONG))
        s.close()
    time.sleep(0.2)


def say_nothing(port, stop):
    sockets = connections(port, 60)
    stop.wait(2)
    close_all(sockets)


def drip(port, stop):
    """Half of them drip a head, half a body."""
    sockets = connections(port, 60)
    for i, s in enumerate(sockets):
        send(s, request_of(port, LONG)[:-40] if i % 2 else b"GET / HTTP/1.1\r\nX-Slow: ")
    while sockets and not stop.wait(0.3):
        sockets = [s for s in sockets if send(s, b"a") or s.close()]
    close_all(sockets)


def send_too_much(port, _):
    for size in (10**6, 10**9):
        head = (f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {size}\r\n\r\n").encode()
        with connect(port) as s:
            try:
                s.sendall(head + b"x" * 10**6)
                code, _, _ = read_answer(s)
                assert code == 413, code
            except (OSError, Closed):
                pass  # it has hung up while we were talking
    time.sleep(0.1)


def read_nothing(port, stop):
    sockets = connections(port, 10)
    for i, s in enumerate(sockets):
        send(s, request_of(port, TEXTS[i % len(TEXTS)]) if i % 2
             else f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * 50)
    stop.wait(3)
    close_all(sockets)


def talk_nonsense(port, _):
    for data in (b"\0" * 1000, b"\n" * 1000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n", b"\xff\xfe\r\n\r\n",
                 b"POST /translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"):
        for s in connections(port, 1):
            send(s, data)
            s.close()
    time.sleep(0.1)


HOSTILE = [hang_up, say_nothing, drip, drip, send_too_much, read_nothing, talk_nonsense]


class Crowd:
    """Runs functions over and over until its end; the first exception is raised there."""

    def __init__(self, port, functions):
        self.stop, self.error = threading.Event(), None
        self.threads = [threading.Thread(target=self.run, args=(f, port)) for f in functions]

    def run(self, function, port):
        while not self.stop.is_set():
            try:
                function(port, self.stop)
            except TimeoutError:
                pass  # no connection for so long: there is a crowd
            except OSError:
                pass
            except BaseException as error:
                self.error = self.error or error
                return

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join()
        if self.error:
            raise self.error


# ---- the phases -------------------------------------------------------------------------------------------------------


def ask_alone(server, folder):
    answers = {}
    for i, text in enumerate(TEXTS + [LONG]):
        code, _, body = ask(server.port, text)
        assert code == 200, (text, code, body)
        answers[text] = body
        if text != LONG:
            (folder / f"{i}.request").write_text(json.dumps({"text": text}), encoding="utf-8")
            (folder / f"{i}.response").write_bytes(body)
    return answers


def wrk(*arguments):
    out = subprocess.run(["wrk", *map(str, arguments)], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in out and "Socket errors" not in out, out
    return float(re.search(r"Requests/sec: +([\d.]+)", out)[1]), out


def run_wrk(server, folder):
    rate, _ = wrk("-t2", "-c32", f"-d{SECONDS['get']}s", server.url)
    say(f"GET /: {rate:.0f} per second")
    rate, out = wrk("-t2", "-c8", f"-d{SECONDS['post']}s", "--timeout", TIMEOUT, "-s", ROOT / "tests/serve/post.lua",
                    server.url + PATH[1:], "--", folder, PATH)
    right, wrong = map(int, re.search(r"answers: (\d+) right, (\d+) wrong", out).groups())
    assert right > 0 and wrong == 0, out
    say(f"POST {PATH}: {rate:.1f} per second, {right} answers as alone")


def ask_until_translated(server, text, answers):
    """How long that takes, with waiting for as long as a 503 says; and how many of these there were."""
    start, refused = time.monotonic(), 0
    while True:
        code, headers, body = ask(server.port, text)
        if code == 200:
            assert body == answers[text], f"{text}: another answer than alone"
            return time.monotonic() - start, refused
        assert code == 503 and int(headers["retry-after"]) > 0, (code, headers, body)
        refused += 1
        time.sleep(int(headers["retry-after"]))


def meet_hostile_clients(server, answers):
    times, refused = [], 0
    with Crowd(server.port, HOSTILE):
        end = time.monotonic() + SECONDS["hostile"]
        while time.monotonic() < end or len(times) < 3:
            seconds, more = ask_until_translated(server, TEXTS[len(times) % len(TEXTS)], answers)
            assert seconds < HONEST_SECONDS, f"{seconds:.1f} s until an honest client had its answer"
            times.append(seconds)
            refused += more
    times.sort()
    say(f"hostile clients: {len(times)} honest requests, {times[len(times) // 2]:.2f} s median, {times[-1]:.2f} s at "
        f"most, {refused} of them first got 503")


def overload(server, answers):
    """Everybody is answered: 200 as alone, 503 with Retry-After, or 504; within the server's time."""
    counts, lock = {200: 0, 503: 0, 504: 0}, threading.Lock()

    def insist(port, _):
        start = time.monotonic()
        code, headers, body = ask(port, LONG)
        assert code in counts, (code, body)
        assert code != 200 or body == answers[LONG], "another answer than alone"
        assert code != 503 or int(headers["retry-after"]) > 0, headers
        assert time.monotonic() - start < TIMEOUT + 5, f"answered after {time.monotonic() - start:.1f} s"
        with lock:
            counts[code] += 1
        time.sleep(0.5)

    with Crowd(server.port, [insist] * (3 * (QUEUE + THREADS))):
        time.sleep(SECONDS["overload"])
    assert counts[503] > 0 and counts[200] > 0, counts
    say(f"overload: {counts[200]} answered, {counts[503]} got 503, {counts[504]} got 504")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    server = Server()
    try:
        with tempfile.TemporaryDirectory() as folder:
            ask(server.port, TEXTS[0])
            start = (server.state()[0], *server.settle()[1:])  # memory before any is given back
            answers = ask_alone(server, pathlib.Path(folder))
            if not SANITIZED:
                run_wrk(server, pathlib.Path(folder))
        meet_hostile_clients(server, answers)
        if not SANITIZED:
            overload(server, answers)
        for text in answers:
            ask_until_translated(server, text, answers)
        end = server.settle()
        say("at first {:.1f} MiB, {} descriptors, {} threads; afterwards {:.1f}, {}, {}".format(*start, *end))
        assert end[0] <= RSS_RATIO * start[0] and end[1:] == start[1:]
    finally:
        server.process.terminate()
        code = server.process.wait(10)
    server.errors.seek(0)
    errors = server.errors.read()
    assert code == 0 and not errors, (code, errors)
    say("done")


if __name__ == "__main__":
    main()
