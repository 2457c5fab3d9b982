// Verifies the hash chain of an account's events:
//
//   node verify.js [FILE]
//
// It prints the last event as SEQ:HASH. Compare it with a head that was kept elsewhere
// (`perennial ledger balance` shows one): a chain that was cut off at its end holds too.
import { createHash } from "node:crypto";
import { stored } from "./events.js";

let last = { seq: 0, hash: "0".repeat(64) };
let begun = false;
for await (const raw of stored(process.argv[2])) {
  const event = JSON.parse(raw);
  const { seq, prev_hash, hash } = event.data.ledger;
  if (!begun && seq > 1) last = { seq: seq - 1, hash: prev_hash }; // older ones were archived
  begun = true;
  if (seq !== last.seq + 1 || prev_hash !== last.hash) fail(seq, "does not follow the one before it");
  if (rowHash(raw, event) !== hash) fail(seq, "was changed");
  last = { seq, hash };
}
console.log(`${last.seq}:${last.hash}`);

function rowHash(raw, { type, time, subject = "", data: { ledger } }) {
  return createHash("sha256")
    .update(text(ledger.prev_hash))
    .update(number(BigInt(ledger.seq)))
    .update(text(type.slice("perennial.".length, -".v1".length)))
    .update(number(micros(time)))
    .update(text(subject))
    .update(text(data(raw)))
    .digest("hex");
}

// The data as they were published, byte for byte, without their last member.
function data(raw) {
  const from = raw.indexOf(',"data":{') + ',"data":'.length;
  const to = raw.lastIndexOf('"ledger":{"seq":');
  const body = raw.subarray(from, to).toString();
  return body.replace(/,$/, "") + "}";
}

function text(value) {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function number(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}

// Date knows milliseconds only; the digits behind them are read by themselves.
function micros(time) {
  const [, fraction = ""] = /\.(\d+)Z$/.exec(time) ?? [];
  const seconds = Date.parse(time.replace(/\.\d+Z$/, "Z")) / 1000;
  return BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(6, "0"));
}

function fail(seq, why) {
  console.error(`event ${seq} ${why}`);
  process.exit(1);
}
