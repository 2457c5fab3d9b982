// What programs make of events, with the types of events.d.ts: `type` says which one it is.
import type { CommandFinishedData, OrderCreateCommand, PerennialEvent } from "./events.js";

/** What commands came to: the highest revision of each is the answer. */
export function ends(events: Iterable<PerennialEvent>): Map<string, CommandFinishedData> {
  const last = new Map<string, CommandFinishedData>();
  for (const event of events) {
    if (event.type !== "perennial.command.finished.v1") continue;
    const id = event.data.command_id;
    if ((last.get(id)?.revision ?? 0) < event.data.revision) last.set(id, event.data);
  }
  return last;
}

/** What was charged and came back. */
export function sum(events: Iterable<PerennialEvent>): { charged: number; refunded: number } {
  const sums = { charged: 0, refunded: 0 };
  for (const { data } of events) {
    if (!("booked" in data) || !data.booked) continue;
    sums.charged += data.booked.charged_cents;
    sums.refunded += data.booked.refunded_cents;
  }
  return sums;
}

/** A line for a person who is on call; nothing for what needs no person. */
export function alarm(event: PerennialEvent): string | undefined {
  switch (event.type) {
    case "perennial.operation.review.v1":
      return `${event.subject} waits for a person: ${event.data.reason}`;
    case "perennial.proxy.expiring.v1":
      return `${event.data.proxy_id} expires at ${event.data.expires_at}`;
    case "perennial.sweep.missed.v1":
      return `${event.data.schedule} missed a slot`;
    default: // also a type that is newer than this program
      return undefined;
  }
}

/** An order: a misspelt field is an error here, and not at the runner. */
export function order(id: string, offer_code: string, quantity: number): OrderCreateCommand {
  return { id, duration_days: 30, items: [{ offer_code, quantity }], max_total_cents: quantity * 300 };
}

// @ts-expect-error: there is no such field
export const misspelt: OrderCreateCommand = { id: "a", duration_days: 30, items: [], max_total_cent: 1 };

// @ts-expect-error: an order names its offers in one way or the other
export const empty: OrderCreateCommand = { id: "a", duration_days: 30 };
