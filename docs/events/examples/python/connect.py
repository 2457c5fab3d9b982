"""How each of the programs here reaches NATS: the login comes from the environment."""

import asyncio
import json
import os
import sys
import time

ACCOUNT = os.environ.get("PERENNIAL_ACCOUNT", "main")
STREAM = f"PERENNIAL_EVENTS_{ACCOUNT}"


async def connect():
    import nats  # here, so that files can be read without it

    options = {"servers": os.environ.get("NATS_URL", "nats://127.0.0.1:4222").split(",")}
    if "NATS_CREDS" in os.environ:
        options["user_credentials"] = os.environ["NATS_CREDS"]
    if "NATS_USER" in os.environ:
        options["user"] = os.environ["NATS_USER"]
        options["password"] = os.environ.get("NATS_PASSWORD", "")

    async def say(error):  # the client connects again by itself
        print(f"nats: {error or type(error).__name__}", file=sys.stderr)

    return await nats.connect(**options, max_reconnect_attempts=-1, reconnect_time_wait=0.5, error_cb=say)


class VerbError(Exception):
    """What the account's service answers in the place of a result."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


async def ask(nc, verb, question, timeout=10):
    """Asks a verb of the account's service."""
    answer = await nc.request(f"perennial.svc.{ACCOUNT}.{verb}", json.dumps(question).encode(), timeout=timeout)
    headers = answer.headers or {}
    if code := headers.get("Nats-Service-Error-Code"):
        raise VerbError(code, headers.get("Nats-Service-Error", ""))
    return json.loads(answer.data)


async def persist(what, patience=300):
    """Does it until it works, for as long as a runner or a server may take to come back."""
    import nats.errors

    end = time.monotonic() + patience
    while True:
        try:
            return await what()
        except VerbError as error:
            if error.code in ("bad_request", "unproven") or time.monotonic() > end:
                raise
        except (nats.errors.Error, TimeoutError):
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.5)
