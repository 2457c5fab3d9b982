"""The events of an account as they were published, each one a str: those of a file with one
a line (`perennial events --stored -o json` prints such lines), or all that the stream holds
at this moment."""

import asyncio
import sys

from connect import STREAM, connect


def stored(file=None):
    if file:
        with open(file, encoding="utf-8", newline="\n") as lines:
            return [line.rstrip("\n") for line in lines]
    return asyncio.run(of_stream())


async def of_stream():
    from nats.js.api import AckPolicy, ConsumerConfig  # here, so that files can be read without it

    nc = await connect()
    try:
        js = nc.jetstream()
        state = (await js.stream_info(STREAM)).state
        if state.messages == 0:
            return []
        events, seq = [], state.first_seq - 1
        # A pull consumer of this program alone; it goes when it is not asked for a while.
        consumer = await js.pull_subscribe("", stream=STREAM, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
        while seq < state.last_seq:
            for message in await consumer.fetch(min(100, state.last_seq - seq), timeout=10):
                place = message.metadata.sequence.stream
                if place != seq + 1:
                    sys.exit(f"events {seq + 1} to {place - 1} were missed: begin again")
                seq = place
                events.append(message.data.decode())
        return events
    finally:
        await nc.close()
