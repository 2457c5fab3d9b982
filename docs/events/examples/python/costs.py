"""Writes every booking of an account as CSV, with running sums:

    python3 costs.py [FILE] > costs.csv

Its last sums are charged_cents and refunded_cents of `perennial ledger balance`.
"""

import csv
import json
import sys

from events import stored

COLUMNS = "seq time type command_id operation_id charged_cents refunded_cents currency sum_charged_cents sum_refunded_cents"


def archived(events):
    """What was booked before the first event, as the last archive says."""
    first = events[0]["data"]["ledger"]["seq"] if events else 1
    if first == 1:
        return None
    for event in reversed(events):
        if event["type"] == "perennial.ledger.archived.v1":
            return event
    sys.exit(f"the events begin with {first}, and no archive says what was before")


def text(cell):
    """A spreadsheet would run a cell that begins like a formula: an apostrophe makes it text."""
    return "'" + cell if cell and cell[0] in "=+-@\t\r" else cell


events = [json.loads(line) for line in stored(*sys.argv[1:2]) if line]
out = csv.writer(sys.stdout)
out.writerow(COLUMNS.split())
seq = charged = refunded = 0
if before := archived(events):
    data = before["data"]
    seq, charged, refunded = data["last_seq"], data["charged_cents"], data["refunded_cents"]
    out.writerow([seq, before["time"], "archived", "", "", charged, refunded, "", charged, refunded])
for event in events:
    data = event["data"]
    booked = data.get("booked")
    if not booked or data["ledger"]["seq"] <= seq:
        continue
    charged += booked["charged_cents"]
    refunded += booked["refunded_cents"]
    who = [text(data.get("command_id", "")), text(data.get("operation_id", ""))]
    money = [booked["charged_cents"], booked["refunded_cents"], booked["currency"]]
    out.writerow([data["ledger"]["seq"], event["time"], event["type"], *who, *money, charged, refunded])
