"""Keeps an SQLite file of the proxies that the account owns, with their expiries:

    python3 inventory.py [FILE [CONSUMER]]

It may be killed at any moment. The file names the last event that is in it, and has it
committed before that event is acknowledged.
"""

import asyncio
import json
import re
import sqlite3
import sys
from datetime import datetime
from pathlib import Path

from nats.errors import TimeoutError as NothingCame
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from connect import ACCOUNT, STREAM, ask, connect, persist

SCHEMA = """
CREATE TABLE IF NOT EXISTS last (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS proxies (proxy_id TEXT PRIMARY KEY, expires_at TEXT, offer_code TEXT, country_code TEXT);
"""


class Inventory:
    def __init__(self, file, durable):
        self.file, self.durable = file, durable
        self.db = sqlite3.connect(file)
        self.db.executescript(SCHEMA)
        self.seq, self.hash = self.db.execute("SELECT seq, hash FROM last").fetchone() or (0, "")

    async def run(self):
        self.nc = await connect()
        self.js = self.nc.jetstream()
        await persist(self.check_history)
        await persist(self.ensure_consumer)
        events = await self.js.pull_subscribe_bind(self.durable, STREAM)
        while True:
            try:
                for message in await events.fetch(1, timeout=30):
                    await self.take(message)
            except NothingCame:
                continue

    async def take(self, message):
        event = json.loads(message.data)
        place = event["data"]["ledger"]
        if place["seq"] == self.seq and place["hash"] != self.hash:
            self.other_history()
        if place["seq"] > self.seq:  # else it came before
            lines = await self.all_lines(event, message)
            with self.db:  # one transaction
                self.apply(event, lines)
                self.db.execute("INSERT OR REPLACE INTO last VALUES (1, ?, ?)", (place["seq"], place["hash"]))
            self.seq, self.hash = place["seq"], place["hash"]
        await message.ack()

    def apply(self, event, lines):
        data = event["data"]
        if event["type"] == "perennial.command.finished.v1":
            for line in lines:
                if line["state"] in ("delivered", "succeeded", "charged"):
                    self.own(line)
        elif event["type"] == "perennial.proxy.expiring.v1":  # seen in the provider's list
            self.own(data)
        elif event["type"] == "perennial.proxy.expired.v1":
            if not later(self.expiry(data["proxy_id"]), data["expires_at"]):
                self.db.execute("DELETE FROM proxies WHERE proxy_id = ?", (data["proxy_id"],))
        elif event["type"] == "perennial.proxy.gone.v1":  # the provider knows it no more
            self.db.execute("DELETE FROM proxies WHERE proxy_id = ?", (data["proxy_id"],))
        # Types that this program does not know are none of its business.

    def own(self, line):
        """Adds a proxy, or what is new of it. A command may finish behind a later one
        that renewed the same proxy: the later expiry stays."""
        had, new = self.expiry(line["proxy_id"]), line.get("expires_at")
        self.db.execute(
            "INSERT INTO proxies VALUES (?1, ?2, ?3, ?4) ON CONFLICT (proxy_id) DO UPDATE SET expires_at = ?2,"
            " offer_code = COALESCE(?3, offer_code), country_code = COALESCE(?4, country_code)",
            (line["proxy_id"], had if later(had, new) else new, line.get("offer_code"), line.get("country_code")),
        )

    def expiry(self, proxy_id):
        row = self.db.execute("SELECT expires_at FROM proxies WHERE proxy_id = ?", (proxy_id,)).fetchone()
        return row[0] if row else None

    async def all_lines(self, event, message):
        """The event has 200 lines at most; the service has the others."""
        data = event["data"]
        lines = data.get("lines", [])

        async def page():
            await message.in_progress()  # it is not to be delivered again meanwhile
            return await ask(self.nc, "lines", {"id": data["command_id"], "after": len(lines), "limit": 1000})

        while len(lines) < data.get("lines_total", 0):
            more = (await persist(page))["lines"]
            if not more:
                break
            lines = lines + more
        return lines

    async def check_history(self):
        """A restored account may have another history behind a point: what was derived
        from the lost one has to go."""
        first = (await self.js.stream_info(STREAM)).state.first_seq
        if self.seq + 1 < first:
            print(f"events up to {first - 1} were archived before this program read them", file=sys.stderr)
        if self.seq == 0 or self.seq < first:
            return
        try:
            message = await self.js.get_msg(STREAM, self.seq)
        except NotFoundError:
            self.other_history()
        if json.loads(message.data)["data"]["ledger"]["hash"] != self.hash:
            self.other_history()

    def other_history(self):
        sys.exit(f"event {self.seq} of {STREAM} is not the one that {self.file} ends with: remove the file, and this reads anew")

    async def ensure_consumer(self):
        """max_ack_pending 1 keeps the order also when events are delivered again. A
        consumer that has acknowledged more than the file holds belongs to a file that
        was lost."""
        try:
            info = await self.js.consumer_info(STREAM, self.durable)
            if info.ack_floor.stream_seq <= self.seq:
                return
            await self.js.delete_consumer(STREAM, self.durable)
        except NotFoundError:
            pass
        subjects = [f"perennial.events.{ACCOUNT}.command.finished", f"perennial.events.{ACCOUNT}.proxy.*"]
        await self.js.add_consumer(
            STREAM,
            ConsumerConfig(
                durable_name=self.durable,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.seq + 1,
                filter_subjects=subjects,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=5,
                max_ack_pending=1,
            ),
        )


def later(a, b):
    return bool(a) and (not b or datetime.fromisoformat(a) > datetime.fromisoformat(b))


arguments = dict(enumerate(sys.argv[1:]))
file = arguments.get(0, "inventory.db")
# Each file has a durable consumer of its own: two that share one get half of the events.
durable = arguments.get(1, "inventory" + re.sub("[^A-Za-z0-9]", "_", str(Path(file).resolve())))
asyncio.run(Inventory(file, durable).run())
