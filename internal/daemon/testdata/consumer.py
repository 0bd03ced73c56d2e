"""Writes a line with the token, key and value of each record to a file: consumer.py CLIENTS URL TOKEN FILE."""
import os
import sys

sys.path.insert(0, sys.argv[1])
import ringfence  # noqa: E402

out = os.open(sys.argv[4], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def handle(record):
    os.write(out, b"%s %s %s\n" % (record.token.encode(), record.key, record.value))


ringfence.Client(sys.argv[2], token=sys.argv[3]).consume("g", handle, topic="a", from_="earliest", ttl_ms=10000)
