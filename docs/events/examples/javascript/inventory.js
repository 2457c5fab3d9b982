// Keeps a file of the proxies that the account owns, with their expiries:
//
//   node inventory.js [FILE [CONSUMER]]
//
// It may be killed at any moment. The file names the last event that is in it, and is
// replaced whole before that event is acknowledged.
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { resolve } from "node:path";
import { AckPolicy, DeliverPolicy, JetStreamApiCodes, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { account, ask, connect, persist, stream } from "./connect.js";

// Each file has a durable consumer of its own: two that share one get half of the events.
const [file = "inventory.json", durable = "inventory" + resolve(file).replace(/[^A-Za-z0-9]/g, "_")] = process.argv.slice(2);
const empty = { seq: 0, hash: "", proxies: {} };
const state = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : empty;
const nc = await connect();
const jsm = await jetstreamManager(nc, { checkAPI: false }); // the login may be for this stream alone
await persist(checkHistory);
await persist(ensureConsumer);
const consumer = await jetstream(nc).consumers.get(stream, durable);
// abort_on_missing_resource: the end of the stream or the consumer ends this program, and
// its next start makes the consumer anew from the file.
for await (const message of await consumer.consume({ max_messages: 1, abort_on_missing_resource: true })) {
  const event = message.json();
  const { seq, hash } = event.data.ledger;
  if (seq === state.seq && hash !== state.hash) otherHistory();
  if (seq > state.seq) { // else it came before
    await apply(event, message);
    Object.assign(state, { seq, hash });
    save();
  }
  message.ack();
}

async function apply({ type, data }, message) {
  switch (type) {
    case "perennial.command.finished.v1":
      for (const line of await allLines(data, message)) own(line);
      break;
    case "perennial.proxy.expired.v1": {
      const had = state.proxies[data.proxy_id];
      if (!isLater(had?.expires_at, data.expires_at)) delete state.proxies[data.proxy_id];
      break;
    }
    case "perennial.proxy.gone.v1": // the provider knows it no more
      delete state.proxies[data.proxy_id];
      break;
    case "perennial.proxy.expiring.v1": // seen in the provider's list
      own({ ...data, state: "succeeded" });
      break;
    // Types that this program does not know are none of its business.
  }
}

// A command may finish behind a later one that renewed the same proxy: the later expiry
// stays. An expiry that is not known is null until an event says it.
function own({ proxy_id, state: line, expires_at, offer_code, country_code }) {
  if (!["delivered", "succeeded", "charged"].includes(line)) return;
  const had = state.proxies[proxy_id] ?? { expires_at: null };
  state.proxies[proxy_id] = {
    ...had,
    ...(offer_code && { offer_code }),
    ...(country_code && { country_code }),
    expires_at: isLater(had.expires_at, expires_at) ? had.expires_at : (expires_at ?? null),
  };
}

function isLater(a, b) {
  return Boolean(a) && (!b || Date.parse(a) > Date.parse(b));
}

// The event has 200 lines at most; the service has the others.
async function allLines({ command_id: id, lines, lines_total }, message) {
  while (lines.length < lines_total) {
    const page = await persist(() => {
      message.working(); // it is not to be delivered again meanwhile
      return ask(nc, "lines", { id, after: lines.length, limit: 1000 });
    });
    if (page.lines.length === 0) break;
    lines = lines.concat(page.lines);
  }
  return lines;
}

function save() {
  const next = openSync(`${file}.next`, "w", 0o600);
  writeSync(next, JSON.stringify(state, null, 1));
  fsyncSync(next);
  closeSync(next);
  renameSync(`${file}.next`, file);
}

// A restored account may have another history behind a point: what was derived from the
// lost one has to go.
async function checkHistory() {
  const { state: kept } = await jsm.streams.info(stream);
  if (state.seq + 1 < kept.first_seq) console.error(`events up to ${kept.first_seq - 1} were archived before this program read them`);
  if (state.seq === 0 || state.seq < kept.first_seq) return;
  const message = await jsm.streams.getMessage(stream, { seq: state.seq });
  if (message?.json().data.ledger.hash !== state.hash) otherHistory();
}

function otherHistory() {
  console.error(`event ${state.seq} of ${stream} is not the one that ${file} ends with: remove the file, and this reads anew`);
  process.exit(1);
}

// max_ack_pending 1 keeps the order also when events are delivered again. A consumer that
// has acknowledged more than the file holds belongs to a file that was lost.
async function ensureConsumer() {
  try {
    const { ack_floor } = await jsm.consumers.info(stream, durable);
    if (ack_floor.stream_seq <= state.seq) return;
    await jsm.consumers.delete(stream, durable);
  } catch (error) {
    if (error.code !== JetStreamApiCodes.ConsumerNotFound) throw error;
  }
  await jsm.consumers.add(stream, {
    durable_name: durable,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: state.seq + 1,
    filter_subjects: [`perennial.events.${account}.command.finished`, `perennial.events.${account}.proxy.*`],
    ack_policy: AckPolicy.Explicit,
    ack_wait: 5_000_000_000,
    max_ack_pending: 1,
  });
}
