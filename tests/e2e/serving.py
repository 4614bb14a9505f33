# SPDX-License-Identifier: Apache-2.0
"""A `postern serve` of a test's own: start, ask, stop."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Server:
    """Listens at a free port of the loopback; `log` collects standard error line by line."""

    def __init__(self, binary, model, *options, home, wait=True, port=0):
        self.log = []
        self.process = subprocess.Popen(
            [binary, "serve", model, "--port", str(port), *map(str, options)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        )
        self.port = port
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        if wait:
            self.await_ready()

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            listening = re.match(r"postern: listening at http://.*:(\d+)$", line)
            if listening:
                self.port = int(listening.group(1))
                self.ready.set()
        self.ready.set()

    def await_ready(self, timeout=120):
        assert self.ready.wait(timeout), self.log
        assert self.process.poll() is None and self.port, self.log

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=120):
        """One request on a connection of its own. A body that is not bytes goes as JSON."""
        connection = self.connect(timeout)
        try:
            if body is not None and not isinstance(body, (bytes, bytearray)):
                body = json.dumps(body).encode()
            given = {"Content-Type": "application/json", **(headers or {})} if body is not None else headers or {}
            connection.request(method, path, body, given)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def chat(self, text, **fields):
        fields = {"temperature": 0, "max_tokens": 8, **fields}
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def events(self, path, body):
        """The events of a stream as they come; the last is "[DONE]"."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"] == "text/event-stream"
        for line in response:
            line = line.decode("utf-8").rstrip("\n")
            if line:
                assert line.startswith("data: "), line
                data = line[len("data: ") :]
                yield data if data == "[DONE]" else json.loads(data)
        connection.close()

    def send_raw(self, data):
        """A socket on which these bytes were sent."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.sendall(data)
        return s

    def start_request(self, path, body, headers=""):
        """A socket on which a whole request was sent, and nothing read."""
        body = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        return self.send_raw(head.encode() + body)

    def metrics(self):
        """{"name{labels}": value}"""
        lines = self.get("/metrics").body.decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def rss(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def stop(self, timeout=60):
        """The exit code after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self.reader.join(10)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def eventually(true, seconds=20):
    """Whether it becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False
