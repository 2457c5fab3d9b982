"""Verifies the hash chain of an account's events:

    python3 verify.py [FILE]

It prints the last event as SEQ:HASH. Compare it with a head that was kept elsewhere
(`perennial ledger balance` shows one): a chain that was cut off at its end holds too.
It needs Python 3.11.
"""

import hashlib
import json
import struct
import sys
from datetime import datetime, timedelta, timezone

from events import stored

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def text(value):
    return struct.pack(">I", len(value.encode())) + value.encode()


def row_hash(raw, event):
    place = event["data"]["ledger"]
    # The data as they were published, byte for byte, without their last member.
    data = raw[raw.index(',"data":{') + len(',"data":') : raw.rindex('"ledger":{"seq":')].removesuffix(",") + "}"
    micros = (datetime.fromisoformat(event["time"]) - EPOCH) // timedelta(microseconds=1)
    row = text(place["prev_hash"]) + struct.pack(">q", place["seq"])
    row += text(event["type"].removeprefix("perennial.").removesuffix(".v1")) + struct.pack(">q", micros)
    row += text(event.get("subject", "")) + text(data)
    return hashlib.sha256(row).hexdigest()


seq, last = None, "0" * 64
for raw in stored(*sys.argv[1:2]):
    if not raw:
        continue
    event = json.loads(raw)
    place = event["data"]["ledger"]
    if seq is None:
        seq = place["seq"] - 1
        if seq:  # older ones were archived
            last = place["prev_hash"]
    if place["seq"] != seq + 1 or place["prev_hash"] != last:
        sys.exit(f"event {place['seq']} does not follow the one before it")
    if row_hash(raw, event) != place["hash"]:
        sys.exit(f"event {place['seq']} was changed")
    seq, last = place["seq"], place["hash"]
print(f"{seq or 0}:{last}")
