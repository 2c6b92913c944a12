"""An HTTP server on the loopback interface that can be told to misbehave."""

import itertools
import socketserver
import threading
import time
from dataclasses import dataclass, field

# What a server can do instead of answering.
MOODS = ("hang", "drip", "half", "short", "long", "500", "loop", "endless", "noise", "empty", "close")
# A server that hangs does so for longer than anyone waits.
FOREVER = 120.0


@dataclass
class Request:
    """A request."""

    method: str
    path: str
    headers: dict
    body: bytes


@dataclass
class Reply:
    """An answer. A pace of N sends N bytes a second."""

    status: int = 200
    headers: dict = field(default_factory=dict)
    body: bytes = b""
    pace: float = 0.0
    # The length that is announced where there is no body to count, as for HEAD.
    length: int | None = None


class Server(socketserver.ThreadingTCPServer):
    """Answers by `reply`, which a subclass has; `moods` take turns over the requests that `is_touched` picks."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, moods=("honest",)):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked, self.closing, self.guard = 0, threading.Event(), threading.Lock()
        self.behave(moods)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def behave(self, moods, then=None):
        """Takes these moods in turns; with `then`, once each, and that one for ever after."""
        self.turns = itertools.cycle(moods) if then is None else itertools.chain(moods, itertools.repeat(then))

    def mood(self, request):
        """The mood towards a request."""
        if not self.is_touched(request):
            return "honest"
        with self.guard:
            self.asked += 1
            return next(self.turns)

    def is_touched(self, request):
        """Whether a mood applies to a request."""
        return True

    def reply(self, request, mood):
        """The answer to a request."""
        raise NotImplementedError

    def handle_error(self, request, client_address):
        """Clients that are killed hang up. That is no error."""

    def close(self):
        """Ends the server, and whatever hangs in it."""
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(socketserver.StreamRequestHandler):
    """One connection with one request."""

    def handle(self):
        request = self.read()
        if request is None:
            return
        mood = self.server.mood(request)
        if mood == "close":
            return
        if mood == "hang":
            self.server.closing.wait(FOREVER)
            return
        if mood == "noise":
            self.wfile.write(bytes(range(256)) * 8)
            return
        self.send(request, self.altered(self.server.reply(request, mood), mood, request), mood)

    def read(self):
        """The request, or None."""
        first = self.rfile.readline(65536).decode("latin-1").split()
        headers = {}
        while (line := self.rfile.readline(65536).decode("latin-1").strip()):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        return Request(first[0], first[1], headers, body) if len(first) == 3 else None

    def altered(self, reply, mood, request):
        """The answer of a server in a mood."""
        if mood == "500":
            return Reply(500, body=b"overloaded")
        if mood == "loop":
            return Reply(307, {"Location": self.server.url + request.path})
        if mood == "empty":
            reply.body, reply.length = b"", None
        return reply

    def send(self, request, reply, mood):
        """Sends an answer, or what a mood makes of it."""
        body = reply.body
        length = len(body) if reply.length is None else reply.length
        length = {"short": length + 1000, "long": max(0, length - 10)}.get(mood, length)
        head = f"HTTP/1.1 {reply.status} Status\r\nConnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        self.wfile.write((head + ("" if mood == "endless" else f"Content-Length: {length}\r\n") + "\r\n").encode())
        if request.method == "HEAD":
            return
        while mood == "endless" and not self.server.closing.is_set():
            self.wfile.write(b" " * (1 << 16))
        pace = 20.0 if mood == "drip" else reply.pace
        self.pour(body[:len(body) // 2] if mood == "half" else body, pace)

    def pour(self, body, pace):
        """Writes bytes, so many a second if there is a pace."""
        step = max(1, int(pace / 50)) if pace else max(1, len(body))
        for at in range(0, len(body), step):
            self.wfile.write(body[at:at + step])
            if pace:
                time.sleep(min(step, len(body) - at) / pace)
            if self.server.closing.is_set():
                return
