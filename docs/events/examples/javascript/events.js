// The events of an account as they were published, each one a Buffer: those of a file with
// one a line (`perennial events --stored -o json` prints such lines), or all that the stream
// holds at this moment.
import { open } from "node:fs/promises";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, stream } from "./connect.js";

export async function* stored(file) {
  if (file) {
    const handle = await open(file);
    for await (const line of handle.readLines()) if (line) yield Buffer.from(line);
    return;
  }
  const nc = await connect();
  try {
    const jsm = await jetstreamManager(nc, { checkAPI: false }); // the login may be for this stream alone
    const { state } = await jsm.streams.info(stream);
    if (state.messages === 0) return;
    const consumer = await jetstream(nc).consumers.get(stream); // ordered: it leaves nothing out
    for await (const message of await consumer.consume()) {
      yield Buffer.from(message.data);
      if (message.seq >= state.last_seq) return;
    }
  } finally {
    await nc.close();
  }
}
