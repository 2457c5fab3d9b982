// Publishes a command and waits for its end:
//
//   node producer.js order.create '{"id":"restock-7","duration_days":30,"items":[…]}'
//
// The end is printed as one line of JSON. Run again with the same command, after a crash or
// for no reason at all, it does nothing twice: the id of the command is what counts.
import { createInbox, headers } from "@nats-io/transport-node";
import { jetstream } from "@nats-io/jetstream";
import { account, ask, connect, persist } from "./connect.js";

const [kind, body] = process.argv.slice(2);
if (!kind || !body) {
  console.error("usage: node producer.js order.create|proxy.renew COMMAND");
  process.exit(2);
}
const { id } = JSON.parse(body);
const nc = await connect();
try {
  const end = await carryOut();
  console.log(JSON.stringify(end));
  process.exitCode = ["delivered", "completed"].includes(end.state) ? 0 : 1;
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await nc.close();
}

async function carryOut() {
  const inbox = createInbox(); // of this process: another one that sends the command again has its own
  const answers = nc.subscribe(inbox, { max: 1 })[Symbol.asyncIterator]();
  const answer = answers.next().then(({ value }) => value?.json());
  await publish(inbox);
  // The answer comes to the inbox. It is missed while the connection is away, so the
  // service is asked too, now and then.
  for (;;) {
    const end = (await Promise.race([answer, quiet(5_000)])) ?? (await persist(finished));
    if (end?.error) throw new Error(`${end.error}: ${end.reason}`);
    if (end) return end;
  }
}

// Publishes until the stream has it. Where only the acknowledgement was lost, the command
// comes twice, and by its id is done once.
function publish(inbox) {
  const h = headers();
  h.set("Perennial-Reply-To", inbox);
  return persist(() => jetstream(nc).publish(`perennial.commands.${account}.${kind}`, body, { headers: h }));
}

// What the command came to, or nothing yet. An id that is still on its way is not known.
async function finished() {
  try {
    return (await ask(nc, "wait", { id, timeout_seconds: 0 })).result;
  } catch (error) {
    if (error.code !== "not_found") throw error;
  }
}

function quiet(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
