"""The events of an account as they were published, each one a str: those of a file with one
a line (`perennial watch --from 1 -o json` prints such lines; `-` is the standard input), or
all that the stream holds at this moment."""

import asyncio
import sys

from connect import STREAM, connect


def stored(file=None):
    if file == "-":
        return [line.rstrip("\n") for line in sys.stdin]
    if file:
        with open(file, encoding="utf-8", newline="\n") as lines:
            return [line.rstrip("\n") for line in lines]
    return asyncio.run(of_stream())


async def of_stream():
    nc = await connect()
    try:
        js = nc.jetstream()
        state = (await js.stream_info(STREAM)).state
        events = []
        if state.messages == 0:
            return events
        subscription = await js.subscribe("", stream=STREAM, ordered_consumer=True)
        while True:
            message = await subscription.next_msg(timeout=30)
            events.append(message.data.decode())
            if message.metadata.sequence.stream >= state.last_seq:
                return events
    finally:
        await nc.close()
