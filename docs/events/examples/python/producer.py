"""Publishes a command and waits for its end:

    python3 producer.py order.create '{"id":"restock-7","duration_days":30,"items":[…]}'

The end is printed as one line of JSON. Run again with the same command, after a crash or
for no reason at all, it does nothing twice: the id of the command is what counts.
"""

import asyncio
import json
import sys

import nats.errors

from connect import ACCOUNT, VerbError, ask, connect, persist


async def carry_out(nc, kind, body):
    command_id = json.loads(body)["id"]
    inbox = nc.new_inbox()  # of this process: another one that sends the command again has its own
    answers = await nc.subscribe(inbox)
    # Publishes until the stream has it. Where only the acknowledgement was lost, the
    # command comes twice, and by its id is done once.
    headers = {"Perennial-Reply-To": inbox}
    subject = f"perennial.commands.{ACCOUNT}.{kind}"
    await persist(lambda: nc.jetstream().publish(subject, body.encode(), headers=headers))

    async def finished():
        try:
            return (await ask(nc, "wait", {"id": command_id, "timeout_seconds": 0})).get("result")
        except VerbError as error:
            if error.code != "not_found":  # it is still on its way
                raise

    # The answer comes to the inbox. It is missed while the connection is away, so the
    # service is asked too, now and then.
    while True:
        try:
            end = json.loads((await answers.next_msg(timeout=5)).data)
        except nats.errors.TimeoutError:
            end = await persist(finished)
        if end and "error" in end:
            raise RuntimeError(f"{end['error']}: {end['reason']}")
        if end:
            return end


async def main():
    if len(sys.argv) != 3:
        sys.exit("usage: producer.py order.create|proxy.renew COMMAND")
    nc = await connect()
    try:
        end = await carry_out(nc, *sys.argv[1:])
    except (RuntimeError, VerbError, nats.errors.Error) as error:
        sys.exit(str(error))
    finally:
        await nc.close()
    print(json.dumps(end))
    sys.exit(0 if end["state"] in ("delivered", "completed") else 1)


asyncio.run(main())
