"""Client of a Ringfence daemon ("ringfence serve --listen"), with the standard library alone.

    client = Client("http://127.0.0.1:7433", token_file="ringfence-data/admin.token")
    client.produce("orders", "order 1", key="customer-7")
    client.consume("billing", handle, topic="orders")

The records of a key come in their order, one at a time; those of different keys in parallel. A handler that raises an
exception gets its record again, after a pause. Write record.token beside what a handler writes elsewhere, and refuse lower
ones of a key: so no consumer that was presumed dead overwrites anything.
"""

from __future__ import annotations

import base64
import http.client
import json
import queue
import random
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

__all__ = ["Client", "Failed", "Problem", "Record", "Session"]

Bytes = Union[bytes, str]


class Problem(Exception):
    """A refusal of the daemon. kind is a word such as not-found, denied, conflict; stored is "no", "unknown" or ""."""

    def __init__(self, status: int, body: Dict[str, Any]):
        super().__init__(body.get("detail") or f"the daemon answers {status}")
        self.status, self.body = status, body
        self.kind = str(body.get("type", "")).rpartition(":")[2]
        self.stored = body.get("stored", "")
        self.why = body.get("why", "")
        self.retry = body.get("retry_ms", 0) / 1000


class Failed(Exception):
    """What a handler raises to say when, or whether, its record is tried again."""

    def __init__(self, error: str, retry: Optional[float] = None, permanent: bool = False, outage: bool = False):
        super().__init__(error)
        self.retry, self.permanent, self.outage = retry, permanent, outage


class Record:
    """A record that was handed out. The fields are those of the daemon's JSON."""

    def __init__(self, line: Dict[str, Any]):
        self.n: int = line.get("n", 0)
        self.topic: str = line["topic"]
        self.storage: int = line["storage"]
        self.partition: int = line["partition"]
        self.offset: int = line["offset"]
        self.epoch: int = line["epoch"]
        self.token: str = line.get("token", "")
        self.attempt: int = line.get("attempt", 1)
        self.timestamp: str = line["timestamp"]
        self.key: Optional[bytes] = None if line.get("key") is None else _bytes(line, "key")
        self.value: bytes = _bytes(line, "value")
        self.headers: List[Tuple[str, bytes]] = [(h["name"], _bytes(h, "value")) for h in line.get("headers", [])]

    def __repr__(self) -> str:
        return f"<Record {self.topic}/{self.storage}/{self.partition}@{self.offset} key={self.key!r} token={self.token}>"


def _bytes(line: Dict[str, Any], name: str) -> bytes:
    text: str = line[name]
    return base64.b64decode(text) if line.get(name + "_encoding") == "base64" else text.encode()


def _text(into: Dict[str, Any], name: str, data: Bytes) -> None:
    try:
        into[name] = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        into[name], into[name + "_encoding"] = base64.b64encode(data).decode(), "base64"  # type: ignore[arg-type]


class Client:
    """Calls a daemon. One client serves all threads of a process."""

    def __init__(self, url: str, token: str = "", token_file: str = "", namespace: str = "default", timeout: float = 60,
                 context: Optional[ssl.SSLContext] = None):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"server {url!r}: expected http://HOST:PORT or https://HOST")
        if token_file:
            with open(token_file, encoding="ascii") as file:
                token = file.read().strip()
        if not token:
            raise ValueError("expected a token, or the file of one: the daemon writes the first to admin.token")
        self._parts, self._context, self.timeout = parts, context, timeout
        self._headers = {"Authorization": "Bearer " + token}
        self.namespace = namespace
        self._idle = threading.local()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context or ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _open(self, c: http.client.HTTPConnection, method: str, path: str, body: Optional[bytes], headers: Dict[str, str]) -> http.client.HTTPResponse:
        c.request(method, self._parts.path.rstrip("/") + path, body=body, headers={**self._headers, **headers})
        answer = c.getresponse()
        if answer.status >= 400:
            text = answer.read()
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"detail": f"the server answers {answer.status}, and not as a daemon of Ringfence does: {text[:200]!r}"}
            raise Problem(answer.status, problem if isinstance(problem, dict) else {})
        return answer

    def path(self, *names: str) -> str:
        """The path of something in the namespace of the client: path("topics", "orders")."""
        return "/v1/ns/" + "/".join(urllib.parse.quote(n, safe=":") for n in (self.namespace, *names))

    def request(self, method: str, path: str, body: Any = None, query: Optional[Dict[str, Any]] = None, headers: Optional[Dict[str, str]] = None) -> Any:
        """Calls any route of the API, and returns the JSON of its answer."""
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        c: Optional[http.client.HTTPConnection] = getattr(self._idle, "connection", None)
        for fresh in (c is None, True):
            if fresh:
                c = self._idle.connection = self._connect(self.timeout)
            assert c is not None
            try:
                with self._open(c, method, path, data, {"Content-Type": "application/json", **(headers or {})}) as answer:
                    text = answer.read()
                return json.loads(text) if text else None
            except Problem:
                raise
            except (OSError, http.client.HTTPException):
                c.close()
                if fresh or method not in ("GET", "PUT", "DELETE"):  # or the daemon closed a connection that was idle
                    self._idle.connection = None
                    raise
        return None

    def produce(self, topic: str, value: Bytes, key: Optional[Bytes] = None, headers: Optional[Dict[str, Bytes]] = None, partition: Optional[int] = None) -> Dict[str, int]:
        """Appends a record and returns its place: storage, partition and offset. It is durable then."""
        record: Dict[str, Any] = {"headers": []}
        _text(record, "value", value)
        if key is not None:
            _text(record, "key", key)
        for name, v in (headers or {}).items():
            header: Dict[str, Any] = {"name": name}
            _text(header, "value", v)
            record["headers"].append(header)
        query = {} if partition is None else {"partition": partition}
        place: Dict[str, int] = self.request("POST", self.path("topics", topic, "records"), record, query)["records"][0]
        return place

    def read(self, topic: str, follow: bool = False, **query: Any) -> Iterator[Record]:
        """The records of a topic: from="earliest", key=…, partition=…, limit=…; with follow also those to come."""
        query = {k.rstrip("_"): v for k, v in query.items()}
        if follow:
            query["follow"] = "true"
        c = self._connect(self.timeout)
        try:
            with self._open(c, "GET", self.path("topics", topic, "records") + "?" + urllib.parse.urlencode(query, doseq=True), None, {"Accept": "application/x-ndjson"}) as lines:
                for text in lines:
                    if text.strip():
                        line = json.loads(text)
                        if "problem" in line:
                            raise Problem(500, {"detail": line["problem"], "type": line.get("type", "")})
                        yield Record(line)
        finally:
            c.close()

    def consume(self, group: str, handler: Callable[[Record], Any], *, threads: int = 8, stop: Optional[threading.Event] = None, **params: Any) -> None:
        """Takes part in a group until stop is set, or Ctrl-C: topic=…, from_="earliest", member=…, window=…, ttl_ms=… are of the session."""
        self._run(self.path("groups", group, "sessions"), handler, threads, stop or threading.Event(), params)

    def work(self, subscription: str, handler: Callable[[Record], Any], *, threads: int = 8, stop: Optional[threading.Event] = None, **params: Any) -> None:
        """Works on a subscription until stop is set: as many workers as one likes share it by key."""
        self._run(self.path("subscriptions", subscription, "sessions"), handler, threads, stop or threading.Event(), params)

    def _run(self, path: str, handler: Callable[[Record], Any], threads: int, stop: threading.Event, params: Dict[str, Any]) -> None:
        params = {k.rstrip("_"): v for k, v in params.items()}
        pause = 0.1
        while not stop.is_set():
            began, at_least = time.monotonic(), 0.0
            try:
                session = Session(self, path, params)
                at_least = session.run(handler, threads, stop)
                if session.why == "deleted":
                    raise Problem(410, {"detail": "what the session consumed was deleted", "why": "deleted"})
            except Problem as p:
                if p.why == "deleted" or p.status in (400, 401, 403, 404):
                    raise
                at_least = p.retry
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() - began > 30:
                pause = 0.1
            stop.wait(max(at_least, pause * random.uniform(1, 2)))
            pause = min(2 * pause, 30)


class Session:
    """One session: a thread reads lines, one sends answers, and others call the handler."""

    def __init__(self, client: Client, path: str, params: Dict[str, Any]):
        self._client = client
        self._wire = client._connect(client.timeout)
        body = json.dumps(params).encode()
        self._lines = client._open(self._wire, "POST", path, body, {"Content-Type": "application/json", "Accept": "application/x-ndjson"})
        first = json.loads(self._lines.readline())
        self.id: str = first["id"]
        self.ttl: float = first["ttl_ms"] / 1000
        self.why, self._retry = "", 0.0
        if self._wire.sock:
            self._wire.sock.settimeout(self.ttl)  # behind a dead connection no line comes
        self._lock = threading.Condition()
        self._seen: int = first["n"]
        self._told = 0
        self._answers: Dict[str, List[Any]] = {"done": [], "failed": [], "released": []}
        self._over = self._leaving = False
        self._open: Dict[int, Record] = {}  # handed out and not begun
        self._busy = 0
        self._queue: "queue.SimpleQueue[Optional[Record]]" = queue.SimpleQueue()

    def run(self, handler: Callable[[Record], Any], threads: int, stop: threading.Event) -> float:
        """Handles records until the session is over or stop is set, and leaves in good order. Returns for how long to stay away."""
        crew = [threading.Thread(target=self._handle, args=(handler,), daemon=True) for _ in range(threads)]
        crew += [threading.Thread(target=self._post, daemon=True), threading.Thread(target=self._leave, args=(stop,), daemon=True)]
        for t in crew:
            t.start()
        reading = True
        while reading:
            try:
                reading = self._read()
            except KeyboardInterrupt:
                stop.set()
            except (OSError, http.client.HTTPException, ValueError):
                break  # it is cut: a new session takes its place
        with self._lock:
            self._over = True
            self._open.clear()
            self._lock.notify_all()
        for _ in range(threads):
            self._queue.put(None)
        for t in crew:
            t.join()
        self._wire.close()
        return self._retry

    def _read(self) -> bool:
        text = self._lines.readline()
        if not text:
            return False
        line = json.loads(text)
        self._take(line)
        if line["type"] == "goodbye":
            self.why, self._retry = line.get("why", ""), line.get("retry_ms", 0) / 1000
            return False
        return True

    def _take(self, line: Dict[str, Any]) -> None:
        with self._lock:
            if line["n"] <= self._seen:
                return
            self._seen = line["n"]
            kind = line["type"]
            if kind == "record":
                record = Record(line)
                if self._leaving:
                    self._answers["released"].append(record.n)
                else:
                    self._open[record.n] = record
                    self._queue.put(record)
            elif kind in ("cancel", "lost"):
                self._release(lambda r: r.n in line.get("records", ()))
            elif kind == "revoke":
                self._release(lambda r: (r.storage, r.partition, r.epoch) == (line.get("storage"), line["partition"], line["epoch"]))
            self._lock.notify_all()

    def _release(self, which: Callable[[Record], bool]) -> None:
        for n in [n for n, r in self._open.items() if which(r)]:
            del self._open[n]
            self._answers["released"].append(n)

    def _handle(self, handler: Callable[[Record], Any]) -> None:
        while (record := self._queue.get()) is not None:
            with self._lock:
                if self._open.pop(record.n, None) is None:
                    continue  # it was given back
                self._busy += 1
            failed: Optional[Dict[str, Any]] = None
            try:
                handler(record)
            except Failed as e:
                failed = {"n": record.n, "error": str(e), "permanent": e.permanent, "outage": e.outage}
                if e.retry is not None:
                    failed["retry_ms"] = int(1000 * e.retry)
            except Exception as e:  # pylint: disable=broad-except  # whatever it is, the record failed
                failed = {"n": record.n, "error": f"{type(e).__name__}: {e}"}
            with self._lock:
                self._busy -= 1
                if failed:
                    self._answers["failed"].append(failed)
                else:
                    self._answers["done"].append(record.n)
                self._lock.notify_all()

    def _post(self) -> None:
        """Sends answers and signs of life, one POST at a time, each again until there is a reply."""
        path = f"/v1/sessions/{self.id}/answers"
        while True:
            with self._lock:
                while not (self._over or self._seen > self._told or any(self._answers.values())):
                    self._lock.wait()
                if self._over:
                    return
                seen = self._seen
                batch = {k: v for k, v in self._answers.items() if v}
                self._answers = {"done": [], "failed": [], "released": []}
            while not self._over:
                try:
                    self._client.request("POST", path, {"seen": seen, **batch})
                    break
                except Problem as p:
                    if p.status == 410 or p.status < 500:
                        self.why, self._retry = p.why or "refused", p.retry
                        self._cut()
                        return
                except (OSError, http.client.HTTPException):
                    pass
                time.sleep(min(1.0, self.ttl / 8))
            with self._lock:
                self._told = seen
                self._lock.notify_all()

    def _leave(self, stop: threading.Event) -> None:
        """Once stop is set: gives back what was not begun, waits for the rest and its answers, and ends the session."""
        while not stop.wait(0.1):
            if self._over:
                return
        with self._lock:
            self._leaving = True
            self._release(lambda r: True)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._over or (self._busy == 0 and self._told == self._seen and not any(self._answers.values())))
        while not self._over:
            try:
                self._client.request("DELETE", f"/v1/sessions/{self.id}")
                break
            except Problem:
                break  # it is over
            except (OSError, http.client.HTTPException):
                time.sleep(min(1.0, self.ttl / 8))
        self._cut()

    def _cut(self) -> None:
        if self._wire.sock:
            try:
                self._wire.sock.shutdown(2)
            except OSError:
                pass
