// Writes every booking of an account as CSV, with running sums:
//
//   node costs.js [FILE] > costs.csv
//
// Its last sums are charged_cents and refunded_cents of `perennial ledger balance`.
import { stored } from "./events.js";

const file = process.argv[2];
const start = await archived();
let { charged, refunded } = start;
print("seq", "time", "type", "command_id", "operation_id", "charged_cents", "refunded_cents", "currency", "sum_charged_cents", "sum_refunded_cents");
if (start.seq) print(start.seq, start.time, "archived", "", "", charged, refunded, "", charged, refunded);
for await (const raw of stored(file)) {
  const { type, time, data } = JSON.parse(raw);
  if (!data.booked || data.ledger.seq <= start.seq) continue;
  const { charged_cents, refunded_cents, currency } = data.booked;
  charged += charged_cents;
  refunded += refunded_cents;
  print(data.ledger.seq, time, type, data.command_id, data.operation_id, charged_cents, refunded_cents, currency, charged, refunded);
}

// What was booked before the stream's first event, as the last archive says.
async function archived() {
  let found, first;
  for await (const raw of stored(file)) {
    const { type, time, data } = JSON.parse(raw);
    first ??= data.ledger.seq;
    if (first === 1) break;
    if (type === "perennial.ledger.archived.v1") {
      found = { seq: data.last_seq, time, charged: data.charged_cents, refunded: data.refunded_cents };
    }
  }
  if (first > 1 && !found) throw new Error(`the events begin with ${first}, and no archive says what was before`);
  return found ?? { seq: 0, charged: 0, refunded: 0 };
}

function print(...cells) {
  process.stdout.write(cells.map(cell).join(",") + "\r\n");
}

// A spreadsheet would run a cell that begins like a formula: an apostrophe makes it text.
function cell(value = "") {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
