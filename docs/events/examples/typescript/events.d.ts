// Made by generate.js of the schemas in docs/events. Do not edit.

/**
 * What all events have.
 */
export interface CloudEvent {
  /**
   * What data is.
   */
  datacontenttype: "application/json";
  /**
   * The same for the same fact, for ever: the account, the first 16 digits of the row's hash, the row.
   */
  id: string;
  /**
   * The account.
   */
  source: string;
  /**
   * The version of CloudEvents.
   */
  specversion: "1.0";
  /**
   * What the fact is about: an operation, a command, a proxy or a record of money; left out where it is the account.
   */
  subject?: string;
  /**
   * When the fact was written to the journal.
   */
  time: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
}

/**
 * An order as it is written (contract of the commands stream). A field that is not here is refused.
 */
export type OrderCreateCommand = {
  /**
   * Chosen by the producer. The same id with the same content is the same command, whenever it comes.
   */
  id: string;
  /**
   * For how many days: a multiple of 30.
   */
  duration_days: number;
  /**
   * The lines.
   */
  items?:
    | {
        /**
         * The offer.
         */
        offer_code: string;
        /**
         * How many proxies.
         */
        quantity: number;
        /**
         * The ranges that addresses are to be taken from.
         */
        cidrs?: string[] | null;
      }[]
    | null;
  /**
   * The offer.
   */
  offer_code?: string | null;
  /**
   * How many proxies.
   */
  quantity?: number | null;
  /**
   * The ceiling for the whole command, checked before sending; none if it is left out.
   */
  max_total_cents?: number | null;
  /**
   * Send nothing after this instant.
   */
  not_after?: string | null;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string | null;
  } | null;
  /**
   * What the provider's sandbox plays; on a sandbox account only.
   */
  sandbox_scenario?: "success" | "delayed" | "partial" | "rejected" | "" | null;
  /**
   * Which commands it passes, or lets pass.
   */
  priority?: "high" | "bulk" | "" | null;
} & (SeveralOffersItems | OneOfferOfferCodeAndQuantity);

export interface SeveralOffersItems {
  items: unknown[];
  offer_code?: null;
  quantity?: null;
}
export interface OneOfferOfferCodeAndQuantity {
  items?: unknown[] | null;
  offer_code: string;
  quantity: number;
}

/**
 * A renewal as it is written.
 */
export interface ProxyRenewCommand {
  /**
   * Chosen by the producer. The same id with the same content is the same command, whenever it comes.
   */
  id: string;
  /**
   * The provider's ids of the proxies.
   */
  proxy_ids: string[];
  /**
   * For how many days: a multiple of 30.
   */
  duration_days: number;
  /**
   * The ceiling for the whole command, checked before sending; none if it is left out.
   */
  max_total_cents?: number | null;
  /**
   * Send nothing after this instant.
   */
  not_after?: string | null;
  /**
   * Leave out proxies that expire at this instant or later.
   */
  due_before?: string | null;
  /**
   * Leave out proxies whose expiry is another, by proxy.
   */
  expect_expires_at?: {
    [k: string]: string;
  } | null;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string | null;
  } | null;
  /**
   * Which commands it passes, or lets pass.
   */
  priority?: "high" | "bulk" | "" | null;
}

/**
 * The data of AccountPaused.
 */
export interface AccountPausedData {
  /**
   * What is paused: the account, or one kind of operation.
   */
  scope: "account" | "order" | "renewal";
  /**
   * Why, in one word: rate_limited, insufficient_wallet_balance, …
   */
  cause: string;
  /**
   * Why, for people.
   */
  detail: string;
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * Until when.
   */
  until?: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that the account, or one kind of its operations, sends nothing. With `until` set it ends automatically, as a Retry-After does.
 */
export interface AccountPaused extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: AccountPausedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:account.paused:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.account.paused.v1";
}

/**
 * The data of AccountResumed.
 */
export interface AccountResumedData {
  /**
   * What is paused: the account, or one kind of operation.
   */
  scope: "account" | "order" | "renewal";
  /**
   * Why, in one word: rate_limited, insufficient_wallet_balance, …
   */
  cause: string;
  /**
   * Why, for people.
   */
  detail?: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
  /**
   * `presume_sent_by` ends the pause of a restored ledger whose gap no read has explained: everything that has not ended may have been sent, by this key.
   */
  presume_sent_by?: string;
}

/**
 * Ends a pause.
 */
export interface AccountResumed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: AccountResumedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:account.resumed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.account.resumed.v1";
}

/**
 * The data of CommandAccepted.
 */
export interface CommandAcceptedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * What the command asks for.
   */
  kind: "order" | "renewal";
  /**
   * SHA-256 of the content.
   */
  content_hash: string;
  /**
   * The command, read and normalised.
   */
  content: {
    [k: string]: unknown;
  };
  /**
   * What it is expected to cost, if known.
   */
  estimate_cents?: number;
  /**
   * For how many days: a multiple of 30.
   */
  duration_days: number;
  /**
   * The operations of the command.
   */
  operations: {
    /**
     * The operation: the command's id, and its part.
     */
    operation_id: string;
    /**
     * The part of the command, such as 0001.
     */
    chunk: string;
    /**
     * How often this part of the command was sent again under a new key, from 1.
     */
    generation: number;
    /**
     * The key under which the provider does the operation once.
     */
    idempotency_key: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids?: string[];
  }[];
  /**
   * `reply_to` is the inbox that gets the data of the command's command.finished.
   */
  reply_to?: string;
  /**
   * `stream_sequence` is the command's message in the commands stream, as its producer's acknowledgement (PubAck) gave it.
   */
  stream_sequence?: number;
}

/**
 * The promise that the command will end in a fact.
 */
export interface CommandAccepted extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandAcceptedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.accepted:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.accepted.v1";
}

/**
 * The data of CommandCancelled.
 */
export interface CommandCancelledData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Cancels an operation that no attempt may have executed.
 */
export interface CommandCancelled extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandCancelledData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.cancelled:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.cancelled.v1";
}

/**
 * The data of CommandConflict.
 */
export interface CommandConflictData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * SHA-256 of the content.
   */
  content_hash: string;
  /**
   * SHA-256 of the content that was accepted first.
   */
  accepted_hash: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * `stream_sequence` is the message of the content that came later, in the commands stream.
   */
  stream_sequence?: number;
}

/**
 * Says that an id came again with other content. The first content remains.
 */
export interface CommandConflict extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandConflictData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.conflict:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.conflict.v1";
}

/**
 * The data of CommandFinished.
 */
export interface CommandFinishedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * From 1.
   */
  revision: number;
  /**
   * Of the command.
   */
  state: "rejected" | "delivered" | "refunded" | "completed" | "partial" | "failed" | "resolved";
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code?: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason?: string;
  /**
   * The running totals; not to be summed.
   */
  totals: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * `lines` are the proxies that an order delivered, or that a renewal was asked for; at most 200 of `lines_total`.
   */
  lines: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Where the order names one offer only.
     */
    offer_code?: string;
    /**
     * Where its address is, as the provider says.
     */
    country_code?: string;
    /**
     * Where in the country its address is, as the provider says.
     */
    region?: string;
    /**
     * The provider's name of the line.
     */
    line_name?: string;
    /**
     * Residential, or of a data centre, as the provider says.
     */
    ip_type?: string;
    /**
     * What it speaks, as the provider says.
     */
    protocol?: string;
    /**
     * When it expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies.
     */
    charged_cents?: number;
    /**
     * Delivered, or the state of a renewal's line.
     */
    state: "delivered" | "pending" | "skipped" | "succeeded" | "failed" | "unresolved" | "charged" | "not_charged";
    /**
     * `previous_expires_at` is the expiry that a renewal paid for. Where it lay in the future, `expires_at` is so many days later: what the provider shows is read with the next listing.
     */
    previous_expires_at?: string;
    /**
     * What came back.
     */
    refunded_cents: number;
  }[];
  /**
   * How many lines there are.
   */
  lines_total: number;
  /**
   * `operations` are at most 200 of `operations_total`.
   */
  operations: {
    /**
     * The operation: the command's id, and its part.
     */
    operation_id: string;
    /**
     * The state.
     */
    state:
      | "accepted"
      | "held"
      | "sending"
      | "waiting"
      | "open"
      | "review"
      | "rejected"
      | "delivered"
      | "refunded"
      | "completed"
      | "partial"
      | "failed"
      | "resolved";
    /**
     * The provider's number of the order.
     */
    order_no?: string;
    /**
     * Of an order that is short, in proxies: what it should deliver, and what it delivered.
     */
    expected_count?: number;
    /**
     * How many proxies are available.
     */
    delivered_count?: number;
  }[];
  /**
   * How many operations there are.
   */
  operations_total: number;
  /**
   * How often its operations were sent.
   */
  attempts: number;
  /**
   * How often an operation of it waited for a person.
   */
  reviews: number;
  /**
   * The inbox that gets these data.
   */
  reply_to?: string;
  /**
   * `stream_sequence` is the command's message in the commands stream, as long as its acceptance was not archived.
   */
  stream_sequence?: number;
}

/**
 * Says that nothing of a command is in progress any more and no person is waited for, and what came of it. The ledger appends it with the fact that ends the command's last operation. A command that is opened again, as by a person's sending again, finishes once more with the next revision.
 */
export interface CommandFinished extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandFinishedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.finished:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.finished.v1";
}

/**
 * The data of CommandHeld.
 */
export interface CommandHeldData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * Why, for programs; older facts have none.
   */
  code?: "daily_limit" | "unknown_price" | "no_cidr_field";
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * What it is expected to cost, if known.
   */
  estimate_cents?: number;
  /**
   * `until` is when it is looked at again; without it only a person releases it.
   */
  until?: string;
}

/**
 * Keeps an operation from being sent until it is released.
 */
export interface CommandHeld extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandHeldData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.held:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.held.v1";
}

/**
 * The data of CommandRejected.
 */
export interface CommandRejectedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * SHA-256 of the content.
   */
  content_hash?: string;
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * Which send of the operation it was, from 1.
   */
  attempt?: number;
  /**
   * `short_of_money`: the wallet could not pay (insufficient_wallet_balance).
   */
  short_of_money?: boolean;
  /**
   * `split_into` are the operations that take over ids of a chunk that was refused, or that is divided.
   */
  split_into?: {
    /**
     * The operation: the command's id, and its part.
     */
    operation_id: string;
    /**
     * The part of the command, such as 0001.
     */
    chunk: string;
    /**
     * How often this part of the command was sent again under a new key, from 1.
     */
    generation: number;
    /**
     * The key under which the provider does the operation once.
     */
    idempotency_key: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids?: string[];
  }[];
  /**
   * For how many days: a multiple of 30.
   */
  duration_days?: number;
  /**
   * `reply_to` is the inbox that gets the data of the command's command.finished, of a command that is refused before it is accepted.
   */
  reply_to?: string;
  /**
   * `stream_sequence` is the message of such a command in the commands stream.
   */
  stream_sequence?: number;
}

/**
 * Ends a command, or one operation of it, with nothing charged: refused before it was accepted, refused by the provider, or never sent.
 */
export interface CommandRejected extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandRejectedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.rejected:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.rejected.v1";
}

/**
 * The data of CommandReleased.
 */
export interface CommandReleasedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
  /**
   * `automatic`: its time had come. It may be held again, unlike what a person let go.
   */
  automatic?: boolean;
}

/**
 * Allows a held operation to be sent.
 */
export interface CommandReleased extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: CommandReleasedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:command.released:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.command.released.v1";
}

/**
 * The data of DeadDropped.
 */
export interface DeadDroppedData {
  /**
   * In the stream of dead letters.
   */
  letter_seq: number;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that a person had a command that could not be read removed for good. It is appended before the letter is removed: while it is still listed, this may not have been done.
 */
export interface DeadDropped extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: DeadDroppedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:dead.dropped:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.dead.dropped.v1";
}

/**
 * The data of DeadRequeued.
 */
export interface DeadRequeuedData {
  /**
   * In the stream of dead letters.
   */
  letter_seq: number;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
  /**
   * The SHA-256 of the corrected command that is published instead; omitted if it is published as it was.
   */
  content_hash?: string;
}

/**
 * Says that a person had a command that could not be read published again. It is appended before the command is published and its letter is removed: while the letter is still listed, this may not have been done.
 */
export interface DeadRequeued extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: DeadRequeuedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:dead.requeued:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.dead.requeued.v1";
}

/**
 * The data of LedgerArchived.
 */
export interface LedgerArchivedData {
  /**
   * `before` is what was asked for: facts of this instant and later stay.
   */
  before: string;
  /**
   * The first row.
   */
  first_seq: number;
  /**
   * The last row.
   */
  last_seq: number;
  /**
   * The hash of the last row.
   */
  last_hash: string;
  /**
   * `last_time` is the time of the last row that went.
   */
  last_time: string;
  /**
   * `snapshot_hash` is over every projection as it was after the last row.
   */
  snapshot_hash: string;
  /**
   * Its name, without the directory.
   */
  file: string;
  /**
   * The book after the last row, as `ledger balance` shows it.
   */
  currency: string;
  /**
   * What the book says that the wallet holds.
   */
  wallet_cents: number;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * What was charged and needs review.
   */
  suspense_cents: number;
  /**
   * What was put in: the opening balance and top-ups.
   */
  funding_cents: number;
  /**
   * What was spent outside Perennial.
   */
  external_cents: number;
  /**
   * `month_ends` are the last rows of the months that ended within the rows that went.
   */
  month_ends?: {
    /**
     * When that month began.
     */
    until: string;
    /**
     * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
     */
    seq: number;
    /**
     * The row's hash.
     */
    hash: string;
  }[];
}

/**
 * Says that journal rows were moved to an archive file. The row it names is the last that was moved; the journal of the ledger begins after it, with the projections as they were there (`snapshot_hash`).
 */
export interface LedgerArchived extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerArchivedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.archived:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.archived.v1";
}

/**
 * The data of LedgerBounded.
 */
export interface LedgerBoundedData {
  /**
   * `first_seq` is the event that the stream begins with: those before it may be gone at any moment after this fact.
   */
  first_seq: number;
  /**
   * `last_seq` and `last_hash` are the last row that the snapshot contains.
   */
  last_seq: number;
  /**
   * The hash of the last row.
   */
  last_hash: string;
  /**
   * The hash over every projection after the last row.
   */
  snapshot_hash: string;
  /**
   * `bucket` and `object` say where the snapshot is.
   */
  bucket: string;
  /**
   * The name of the snapshot in the bucket.
   */
  object: string;
  /**
   * `held_by` is a durable consumer that has not acknowledged the events from `first_seq` to `last_seq`, which stay therefore.
   */
  held_by?: string;
  /**
   * `lost` are durable consumers that had not acknowledged every event before `first_seq`, and were named by a person.
   */
  lost?: string[];
}

/**
 * Says that the events stream begins later from now on. What the removed events amounted to is in the account's bucket of snapshots, where the stream is, and was read back before this fact was appended; the ledger.archived of the same snapshot vouches for it.
 */
export interface LedgerBounded extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerBoundedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.bounded:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.bounded.v1";
}

/**
 * The data of LedgerDiscrepancy.
 */
export interface LedgerDiscrepancyData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id?: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * What differs, in one word: docs/operations.md, Findings.
   */
  finding: string;
  /**
   * The difference.
   */
  amount_cents: number;
  /**
   * The provider's number of the order.
   */
  order_no?: string;
  /**
   * The provider's id of the proxy.
   */
  proxy_id?: string;
  /**
   * The difference, for people.
   */
  explanation: string;
}

/**
 * A difference between the books and the provider that no record explains. It corrects nothing.
 */
export interface LedgerDiscrepancy extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerDiscrepancyData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.discrepancy:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.discrepancy.v1";
}

/**
 * The data of LedgerOpened.
 */
export interface LedgerOpenedData {
  /**
   * The provider's id of the account.
   */
  account_id: string;
  /**
   * The provider's environment.
   */
  environment: "sandbox" | "production";
  /**
   * The provider's address.
   */
  base_url: string;
  /**
   * The account's currency, as ISO 4217 has it.
   */
  currency: string;
  /**
   * What the wallet held when the ledger was opened.
   */
  opening_cents: number;
  /**
   * The history since the ledger was made, or restored last.
   */
  epoch: string;
  /**
   * `restored` is set if the epoch begins with a restore.
   */
  restored?: {
    /**
     * What it was restored from.
     */
    from: "backup" | "events";
    /**
     * `since` is the time of the last row that was restored: what was sent after it may be forgotten.
     */
    since: string;
    /**
     * `app_id` is the key that forgotten sends are taken to have used.
     */
    app_id: string;
    /**
     * `proven`: the last row is the last event of the stream.
     */
    proven: boolean;
  };
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * Binds the file to a provider account and books the opening balance. It is always the first fact of an epoch; a restored file continues under its binding, with nothing booked.
 */
export interface LedgerOpened extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerOpenedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.opened:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.opened.v1";
}

/**
 * The data of LedgerReconciled.
 */
export interface LedgerReconciledData {
  /**
   * What the book says that the wallet holds.
   */
  wallet_cents: number;
  /**
   * What the provider says that the wallet holds.
   */
  provider_cents: number;
  /**
   * Nothing was in progress when the wallet was read.
   */
  quiet: boolean;
}

/**
 * Says that the books were compared with the provider and agreed.
 */
export interface LedgerReconciled extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerReconciledData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.reconciled:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.reconciled.v1";
}

/**
 * The data of LedgerRecorded.
 */
export interface LedgerRecordedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id?: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * What moved: money into the wallet, or out of it for something that was bought elsewhere.
   */
  movement: "top-up" | "external" | "charge" | "refund";
  /**
   * The difference.
   */
  amount_cents: number;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
  /**
   * `order_no` is the order that the money went on or came back from, if a person knows it.
   */
  order_no?: string;
  /**
   * The line of a renewal.
   */
  proxy_id?: string;
  /**
   * `id` is the person's own: the same one books once.
   */
  id?: string;
  /**
   * `account` is external for a top-up that takes recorded spending back, and funding for spending that takes a top-up back: the sums of that account fall.
   */
  account?: string;
  /**
   * `corrects_seq` is the journal sequence of the record, or of the answer to a review, that this one takes back or corrects.
   */
  corrects_seq?: number;
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * Books money that moved outside Perennial, or that the replies for an operation did not show, in a person's name. The Ref of a charge and a refund names the operation.
 */
export interface LedgerRecorded extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerRecordedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.recorded:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.recorded.v1";
}

/**
 * The data of LedgerUncompared.
 */
export interface LedgerUncomparedData {
  /**
   * By the books.
   */
  wallet_cents: number;
  /**
   * By the provider.
   */
  provider_cents: number;
  /**
   * `operation_ids` are those of unknown cost, the first 20 of `operations_total`.
   */
  operation_ids: string[];
  /**
   * How many operations there are.
   */
  operations_total: number;
}

/**
 * Says that the wallet could not be compared with the books, from this pass on: operations are open whose cost is not known and has no bound. It is published once, until a pass can compare again.
 */
export interface LedgerUncompared extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: LedgerUncomparedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:ledger.uncompared:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.ledger.uncompared.v1";
}

/**
 * The data of ListingShrunk.
 */
export interface ListingShrunkData {
  /**
   * Living proxies before the listing, without retired ones.
   */
  known: number;
  /**
   * Those of `known` that it did not show.
   */
  not_listed: number;
  /**
   * `proxy_ids` are some of them; none if their entries cannot be read.
   */
  proxy_ids: string[];
}

/**
 * Says that a complete listing did not show a large share of the living proxies, or not so that they can be read. Absence is no evidence about a proxy: each stays due, is read before it is paid for, and is warned about.
 */
export interface ListingShrunk extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ListingShrunkData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:listing.shrunk:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.listing.shrunk.v1";
}

/**
 * The data of ListingUncovered.
 */
export interface ListingUncoveredData {
  /**
   * How many they are; 0: none any more.
   */
  uncovered: number;
  /**
   * `proxy_ids` are at most 20 of them, those that expire first.
   */
  proxy_ids: string[];
  /**
   * `first_expires_at` is when the first of them expires.
   */
  first_expires_at?: string;
}

/**
 * Says how many living proxies no schedule renews, as two complete listings showed: they expire unless a command renews them. It is published when there are some, when there are more or fewer or the first has expired (once a day at most), and with 0 when there are none any more.
 */
export interface ListingUncovered extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ListingUncoveredData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:listing.uncovered:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.listing.uncovered.v1";
}

/**
 * The data of OperationOverran.
 */
export interface OperationOverranData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * What it is expected to cost, if known.
   */
  estimate_cents: number;
  /**
   * Before refunds.
   */
  charged_cents: number;
}

/**
 * Says that an operation was charged more than the estimate that it was sent with, as when the provider's price rose.
 */
export interface OperationOverran extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OperationOverranData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:operation.overran:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.operation.overran.v1";
}

/**
 * The data of OperationResolved.
 */
export interface OperationResolvedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
  /**
   * What the person found.
   */
  outcome: "charged" | "not_charged";
  /**
   * The provider's id of the proxy.
   */
  proxy_id?: string;
  /**
   * `order_no` is the order that a person found the operation to have made.
   */
  order_no?: string;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * `proxy_ids` and `proxies` are what that order delivered, as it was read for the answer.
   */
  proxy_ids?: string[];
  /**
   * How many proxies.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Where the order names one offer only.
     */
    offer_code?: string;
    /**
     * Where its address is, as the provider says.
     */
    country_code?: string;
    /**
     * Where in the country its address is, as the provider says.
     */
    region?: string;
    /**
     * The provider's name of the line.
     */
    line_name?: string;
    /**
     * Residential, or of a data centre, as the provider says.
     */
    ip_type?: string;
    /**
     * What it speaks, as the provider says.
     */
    protocol?: string;
    /**
     * When it expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
  /**
   * An operation as its command was accepted: its members and its key are frozen here.
   */
  send_again?: {
    /**
     * The operation: the command's id, and its part.
     */
    operation_id: string;
    /**
     * The part of the command, such as 0001.
     */
    chunk: string;
    /**
     * How often this part of the command was sent again under a new key, from 1.
     */
    generation: number;
    /**
     * The key under which the provider does the operation once.
     */
    idempotency_key: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids?: string[];
  }[];
  /**
   * For how many days: a multiple of 30.
   */
  duration_days?: number;
  /**
   * `lines` divide the amount of an answer for a whole renewal among its open lines.
   */
  lines?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Gross.
     */
    charged_cents: number;
  }[];
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * A person's answer to a review.
 */
export interface OperationResolved extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OperationResolvedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:operation.resolved:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.operation.resolved.v1";
}

/**
 * The data of OperationReview.
 */
export interface OperationReviewData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code?: string;
  /**
   * The HTTP status of the reply.
   */
  http_status?: number;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The send may have been carried out.
   */
  ambiguous: boolean;
  /**
   * The provider's number of the order.
   */
  order_no?: string;
  /**
   * The lines that are known.
   */
  settlement?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The lines.
     */
    items: {
      /**
       * The provider's id of the proxy.
       */
      proxy_id: string;
      /**
       * The state.
       */
      state: "pending" | "skipped" | "succeeded" | "failed" | "unresolved" | "charged" | "not_charged";
      /**
       * What was charged, gross: before refunds.
       */
      charged_cents: number;
      /**
       * What came back.
       */
      refunded_cents: number;
    }[];
  };
  /**
   * `proxy_ids` and `proxies` are those of an order, as the read that led here showed them.
   */
  proxy_ids?: string[];
  /**
   * How many proxies.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Where the order names one offer only.
     */
    offer_code?: string;
    /**
     * Where its address is, as the provider says.
     */
    country_code?: string;
    /**
     * Where in the country its address is, as the provider says.
     */
    region?: string;
    /**
     * The provider's name of the line.
     */
    line_name?: string;
    /**
     * Residential, or of a data centre, as the provider says.
     */
    ip_type?: string;
    /**
     * What it speaks, as the provider says.
     */
    protocol?: string;
    /**
     * When it expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * Says that the operation needs review, with what is known. A renewal's lines are booked, unresolved ones to suspense.
 */
export interface OperationReview extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OperationReviewData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:operation.review:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.operation.review.v1";
}

/**
 * The data of OperationSending.
 */
export interface OperationSendingData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * The key under which the provider does the operation once.
   */
  idempotency_key: string;
  /**
   * The exact body of the request.
   */
  body: string;
  /**
   * When it was signed.
   */
  sent_at: string;
  /**
   * The id of the API key that signed, without its secret.
   */
  app_id: string;
  /**
   * `observed_expires_at` are the expiries that this attempt pays for, as they were last seen or read just before.
   */
  observed_expires_at?: {
    [k: string]: string;
  };
  /**
   * `estimate_cents` is the most this send is expected to cost, if known.
   */
  estimate_cents?: number;
}

/**
 * Committed before the first byte of an attempt: the key, the exact body and the X-API-Timestamp that will be signed.
 */
export interface OperationSending extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OperationSendingData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:operation.sending:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.operation.sending.v1";
}

/**
 * The data of OperationUnsent.
 */
export interface OperationUnsentData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * When it continues, at the earliest.
   */
  next_at: string;
}

/**
 * Says that an attempt certainly wrote no byte of its request.
 */
export interface OperationUnsent extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OperationUnsentData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:operation.unsent:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.operation.unsent.v1";
}

/**
 * The data of OperationWaiting.
 */
export interface OperationWaitingData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code?: string;
  /**
   * The HTTP status of the reply.
   */
  http_status?: number;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * `ambiguous`: this attempt may have executed.
   */
  ambiguous: boolean;
  /**
   * When it continues, at the earliest.
   */
  next_at: string;
}

/**
 * Says that the operation goes again, with the same key and the same bytes, not before `next_at`.
 */
export interface OperationWaiting extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OperationWaitingData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:operation.waiting:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.operation.waiting.v1";
}

/**
 * The data of OrderAccepted.
 */
export interface OrderAcceptedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * When it continues, at the earliest.
   */
  next_at: string;
}

/**
 * Says that the provider took the order (201). It books nothing.
 */
export interface OrderAccepted extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OrderAcceptedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:order.accepted:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.order.accepted.v1";
}

/**
 * The data of OrderDelivered.
 */
export interface OrderDeliveredData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The status, as the provider says.
   */
  status: string;
  /**
   * How many proxies the order is for.
   */
  expected_count: number;
  /**
   * How many proxies are available.
   */
  delivered_count: number;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * `read_at` is when the detail was last read, this time included.
   */
  read_at?: string;
  /**
   * `unread_since` is the first of the reads in a row that failed, up to this one.
   */
  unread_since?: string;
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * The provider's ids of the proxies.
   */
  proxy_ids: string[];
  /**
   * `proxies` are those of `proxy_ids`, as the provider showed them.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Where the order names one offer only.
     */
    offer_code?: string;
    /**
     * Where its address is, as the provider says.
     */
    country_code?: string;
    /**
     * Where in the country its address is, as the provider says.
     */
    region?: string;
    /**
     * The provider's name of the line.
     */
    line_name?: string;
    /**
     * Residential, or of a data centre, as the provider says.
     */
    ip_type?: string;
    /**
     * What it speaks, as the provider says.
     */
    protocol?: string;
    /**
     * When it expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
  /**
   * `short` is set if fewer proxies were delivered than were ordered.
   */
  short?: {
    /**
     * By the command.
     */
    ordered_count: number;
    /**
     * Entries in the order's list of proxies.
     */
    listed_count: number;
  };
}

/**
 * Says that the provider reports the order as complete and available.
 */
export interface OrderDelivered extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OrderDeliveredData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:order.delivered:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.order.delivered.v1";
}

/**
 * The data of OrderListed.
 */
export interface OrderListedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The provider's ids of the proxies.
   */
  proxy_ids: string[];
  /**
   * `proxies` are those of `proxy_ids`, as the provider showed them.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Where the order names one offer only.
     */
    offer_code?: string;
    /**
     * Where its address is, as the provider says.
     */
    country_code?: string;
    /**
     * Where in the country its address is, as the provider says.
     */
    region?: string;
    /**
     * The provider's name of the line.
     */
    line_name?: string;
    /**
     * Residential, or of a data centre, as the provider says.
     */
    ip_type?: string;
    /**
     * What it speaks, as the provider says.
     */
    protocol?: string;
    /**
     * When it expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
}

/**
 * Says that an order which has ended shows proxies that no earlier fact names, as after an answer that was given while it could not be read. They carry its labels.
 */
export interface OrderListed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OrderListedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:order.listed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.order.listed.v1";
}

/**
 * The data of OrderProgressed.
 */
export interface OrderProgressedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The status, as the provider says.
   */
  status: string;
  /**
   * How many proxies the order is for.
   */
  expected_count: number;
  /**
   * How many proxies are available.
   */
  delivered_count: number;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * `read_at` is when the detail was last read, this time included.
   */
  read_at?: string;
  /**
   * `unread_since` is the first of the reads in a row that failed, up to this one.
   */
  unread_since?: string;
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * When it continues, at the earliest.
   */
  next_at: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason?: string;
}

/**
 * Says that the order is not finished, and is read again at `next_at`.
 */
export interface OrderProgressed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OrderProgressedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:order.progressed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.order.progressed.v1";
}

/**
 * The data of OrderRefunded.
 */
export interface OrderRefundedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The status, as the provider says.
   */
  status: string;
  /**
   * How many proxies the order is for.
   */
  expected_count: number;
  /**
   * How many proxies are available.
   */
  delivered_count: number;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * `read_at` is when the detail was last read, this time included.
   */
  read_at?: string;
  /**
   * `unread_since` is the first of the reads in a row that failed, up to this one.
   */
  unread_since?: string;
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * The state of the refund, as the provider says.
   */
  refund_status: string;
  /**
   * Where the money went, as the provider says.
   */
  destination: string;
  /**
   * When the money came back.
   */
  refunded_at: string;
  /**
   * `proxy_ids` and `proxies` are what was delivered of it all the same.
   */
  proxy_ids?: string[];
  /**
   * How many proxies.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * Where the order names one offer only.
     */
    offer_code?: string;
    /**
     * Where its address is, as the provider says.
     */
    country_code?: string;
    /**
     * Where in the country its address is, as the provider says.
     */
    region?: string;
    /**
     * The provider's name of the line.
     */
    line_name?: string;
    /**
     * Residential, or of a data centre, as the provider says.
     */
    ip_type?: string;
    /**
     * What it speaks, as the provider says.
     */
    protocol?: string;
    /**
     * When it expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
}

/**
 * Says that the provider returned money for the order.
 */
export interface OrderRefunded extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: OrderRefundedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:order.refunded:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.order.refunded.v1";
}

/**
 * The data of ProxyExpired.
 */
export interface ProxyExpiredData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * When it expires.
   */
  expires_at: string;
}

/**
 * Says, once for each expiry, that a proxy has expired.
 */
export interface ProxyExpired extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyExpiredData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.expired:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.expired.v1";
}

/**
 * The data of ProxyExpiring.
 */
export interface ProxyExpiringData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * When it expires.
   */
  expires_at: string;
  /**
   * `threshold_seconds` is how long before the expiry the account wants to know.
   */
  threshold_seconds?: number;
}

/**
 * Warns, once for each expiry and threshold, that a proxy expires soon and has not been renewed.
 */
export interface ProxyExpiring extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyExpiringData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.expiring:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.expiring.v1";
}

/**
 * The data of ProxyGone.
 */
export interface ProxyGoneData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * As it was last shown.
   */
  expires_at?: string;
}

/**
 * Says that the provider no longer knows a proxy that had not expired: its own read was answered with proxy_not_found. Nothing renews it, and no proxy.expired follows.
 */
export interface ProxyGone extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyGoneData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.gone:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.gone.v1";
}

/**
 * The data of ProxyReinstated.
 */
export interface ProxyReinstatedData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that sweeps renew the proxy again, and count its endings without a renewal from here.
 */
export interface ProxyReinstated extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyReinstatedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.reinstated:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.reinstated.v1";
}

/**
 * The data of ProxyReplaced.
 */
export interface ProxyReplacedData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * When it expires.
   */
  expires_at: string;
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The command, as it is published.
   */
  command: {
    [k: string]: unknown;
  };
  /**
   * `max_total_cents` is the order's ceiling.
   */
  max_total_cents: number;
}

/**
 * Says that the provider would not renew the proxy, and by its schedule's policy this order buys another in its place. It says that the order is on its way, not that anything was bought.
 */
export interface ProxyReplaced extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyReplacedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.replaced:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.replaced.v1";
}

/**
 * The data of ProxyRetired.
 */
export interface ProxyRetiredData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that no sweep renews the proxy any more. It is kept until it expires, and a person's own command still renews it.
 */
export interface ProxyRetired extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyRetiredData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.retired:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.retired.v1";
}

/**
 * The data of ProxyRevealed.
 */
export interface ProxyRevealedData {
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that a person asked for the proxy's credentials on a page. The provider is asked after it; no credential is in any fact.
 */
export interface ProxyRevealed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyRevealedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.revealed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.revealed.v1";
}

/**
 * The data of ProxyReview.
 */
export interface ProxyReviewData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id?: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's id of the proxy.
   */
  proxy_id: string;
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * When it expires.
   */
  expires_at: string;
  /**
   * How many renewals in a row ended without renewing it.
   */
  endings_without_renewal: number;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
}

/**
 * Says that so many renewals of the proxy ended without renewing it that sweeps leave it to a person. It is about the last of them, and waits in v_reviews until the proxy is retired or reinstated, or renewed after all.
 */
export interface ProxyReview extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxyReviewData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.review:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.review.v1";
}

/**
 * The data of ProxySkipped.
 */
export interface ProxySkippedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id?: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id?: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's id of the proxy.
   */
  proxy_id?: string;
  /**
   * Why, for programs; older facts have none.
   */
  code?:
    | "claimed"
    | "not_found"
    | "no_expiry"
    | "expiry_moved"
    | "not_due"
    | "renewed"
    | "maybe_renewed"
    | "retired"
    | "unreadable"
    | "other";
  /**
   * Why, for people; it may be reworded.
   */
  reason?: string;
  /**
   * When it expires.
   */
  expires_at?: string;
  /**
   * Proxies that were left out for one reason.
   */
  skipped?: {
    /**
     * Why, for programs; older facts have none.
     */
    code?:
      | "claimed"
      | "not_found"
      | "no_expiry"
      | "expiry_moved"
      | "not_due"
      | "renewed"
      | "maybe_renewed"
      | "retired"
      | "unreadable"
      | "other";
    /**
     * Why, for people; it may be reworded.
     */
    reason: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids: string[];
    /**
     * `read_expires_at` are the expiries that were read, by proxy.
     */
    read_expires_at?: {
      [k: string]: string;
    };
  }[];
}

/**
 * Says that a proxy was left out of a renewal, and why. Proxies that were left out together share one fact: they are in `skipped`, and the fields of a single proxy are empty.
 */
export interface ProxySkipped extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ProxySkippedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:proxy.skipped:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.proxy.skipped.v1";
}

/**
 * The data of RenewalCompleted.
 */
export interface RenewalCompletedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The status, as the provider says.
   */
  status: "completed";
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code?: string;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * The lines.
   */
  items: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The state.
     */
    state: "pending" | "skipped" | "succeeded" | "failed" | "unresolved" | "charged" | "not_charged";
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
  }[];
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * The result of a renewal whose lists, lines and sums agree. Its fact is named after `status`: completed, partial or failed.
 */
export interface RenewalCompleted extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: RenewalCompletedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:renewal.completed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.renewal.completed.v1";
}

/**
 * The data of RenewalFailed.
 */
export interface RenewalFailedData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The status, as the provider says.
   */
  status: "failed";
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code?: string;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * The lines.
   */
  items: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The state.
     */
    state: "pending" | "skipped" | "succeeded" | "failed" | "unresolved" | "charged" | "not_charged";
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
  }[];
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * The result of a renewal whose lists, lines and sums agree. Its fact is named after `status`: completed, partial or failed.
 */
export interface RenewalFailed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: RenewalFailedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:renewal.failed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.renewal.failed.v1";
}

/**
 * The data of RenewalPartial.
 */
export interface RenewalPartialData {
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The operation: the command's id, and its part.
   */
  operation_id: string;
  /**
   * The labels of the command, as its producer gave them.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context that the command's message came with.
   */
  traceparent?: string;
  /**
   * The vendors' part of the trace context.
   */
  tracestate?: string;
  /**
   * The status, as the provider says.
   */
  status: "partial";
  /**
   * Which send of the operation it was, from 1.
   */
  attempt: number;
  /**
   * Why, as a code: the provider's, or one of Perennial's.
   */
  code?: string;
  /**
   * What was charged, gross: before refunds.
   */
  charged_cents: number;
  /**
   * What came back.
   */
  refunded_cents: number;
  /**
   * The lines.
   */
  items: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The state.
     */
    state: "pending" | "skipped" | "succeeded" | "failed" | "unresolved" | "charged" | "not_charged";
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
  }[];
  /**
   * By this fact.
   */
  booked?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
  /**
   * Of the operation, with this fact.
   */
  totals?: {
    /**
     * What was charged, gross: before refunds.
     */
    charged_cents: number;
    /**
     * What came back.
     */
    refunded_cents: number;
    /**
     * The account's currency, as ISO 4217 has it.
     */
    currency: string;
  };
}

/**
 * The result of a renewal whose lists, lines and sums agree. Its fact is named after `status`: completed, partial or failed.
 */
export interface RenewalPartial extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: RenewalPartialData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:renewal.partial:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.renewal.partial.v1";
}

/**
 * The data of RunnerStarted.
 */
export interface RunnerStartedData {
  /**
   * The program's version.
   */
  version: string;
  /**
   * The process that works on the account.
   */
  holder: string;
  /**
   * `recovered` counts the operations that were found in the middle of a send.
   */
  recovered: number;
}

/**
 * Says that a runner took the account over.
 */
export interface RunnerStarted extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: RunnerStartedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:runner.started:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.runner.started.v1";
}

/**
 * The data of ScheduleConfigured.
 */
export interface ScheduleConfiguredData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * When it fires, as cron writes it.
   */
  cron: string;
  /**
   * The time zone that days and slots are of.
   */
  timezone: string;
  /**
   * From when on.
   */
  since: string;
  /**
   * `was` is its earlier name: what that one has spent, holds and is paused for is the schedule's.
   */
  was?: string;
}

/**
 * Says that a schedule is new, or has another name, cron or zone. It counts its slots from `since`: no earlier one fires, and those that pass while nothing runs are caught up.
 */
export interface ScheduleConfigured extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ScheduleConfiguredData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:schedule.configured:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.schedule.configured.v1";
}

/**
 * The data of SchedulePaused.
 */
export interface SchedulePausedData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * `until` is when it ends automatically; nil: a person resumes it.
   */
  until?: string;
  /**
   * The name of the person, as the request gave it.
   */
  by: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that a schedule fires no slot until it is resumed. What it has planned before is carried out, and a person's own sweep is made.
 */
export interface SchedulePaused extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: SchedulePausedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:schedule.paused:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.schedule.paused.v1";
}

/**
 * The data of ScheduleResumed.
 */
export interface ScheduleResumedData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * The name of the person, as the request gave it.
   */
  by?: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that a schedule fires its slots again: those that passed during the pause are served by one sweep. Without `by` the time of the pause was over.
 */
export interface ScheduleResumed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: ScheduleResumedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:schedule.resumed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.schedule.resumed.v1";
}

/**
 * The data of SweepFailed.
 */
export interface SweepFailedData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * The planned firing.
   */
  slot: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * `due` counts the living proxies of the schedule, as they were last listed, that the sweep is about; `expiring`, of them, those that expire before `next_slot`.
   */
  due: number;
  /**
   * How many of them expire before the next slot.
   */
  expiring: number;
  /**
   * The slot that follows.
   */
  next_slot?: string;
  /**
   * When the first of them expires.
   */
  first_expires_at?: string;
}

/**
 * Says that a slot's sweep cannot be made, as when the proxies cannot be listed, or commands of it were refused as invalid. It is tried again; once it is made its sweep.planned follows.
 */
export interface SweepFailed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: SweepFailedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:sweep.failed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.sweep.failed.v1";
}

/**
 * The data of SweepFinished.
 */
export interface SweepFinishedData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * The planned firing.
   */
  slot: string;
  /**
   * The hash of the plan.
   */
  plan: string;
  /**
   * `published` is how many commands it was.
   */
  published: number;
  /**
   * `over_limit` counts the due proxies that a budget, the account's limit or the wallet left out: the slot's 'sweep.held' says which.
   */
  over_limit?: number;
  /**
   * `by` and `reason` are of the person who approved a plan that was held, or with `abandoned` declined it.
   */
  by?: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason?: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
  /**
   * `abandoned`: the slot's commands may not all be published, and never will be; `reason` says why.
   */
  abandoned?: boolean;
}

/**
 * Says that every command of the slot's plan is on the commands stream.
 */
export interface SweepFinished extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: SweepFinishedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:sweep.finished:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.sweep.finished.v1";
}

/**
 * The data of SweepHeld.
 */
export interface SweepHeldData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * The planned firing.
   */
  slot: string;
  /**
   * The hash of the plan.
   */
  plan: string;
  /**
   * `code` says for programs what it waits for; older facts have none.
   */
  code?: "approval" | "earlier_plan" | "budget" | "daily_budget" | "monthly_budget" | "daily_limit" | "wallet";
  /**
   * Why, for people; it may be reworded.
   */
  reason: string;
  /**
   * How many due proxies are left out.
   */
  left_out: number;
  /**
   * `shortfall_cents` is what is missing for what is left out: more budget, or money in the wallet.
   */
  shortfall_cents: number;
  /**
   * `unknown_price` counts, of what is left out or waits, the proxies whose price is not known: they are not in `shortfall_cents`.
   */
  unknown_price?: number;
  /**
   * `first_lost_at` is when the first proxy that is left out expires.
   */
  first_lost_at?: string;
  /**
   * `provider_cents` is what the provider's wallet held, if that is too low.
   */
  provider_cents?: number;
}

/**
 * Says that a plan needs approval, or that a limit of money skips a part of it: one fact for each limit that the plan exceeds.
 */
export interface SweepHeld extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: SweepHeldData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:sweep.held:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.sweep.held.v1";
}

/**
 * The data of SweepMissed.
 */
export interface SweepMissedData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * The slots that passed.
   */
  slots: string[];
  /**
   * The slot that serves those that were missed.
   */
  served_by: string;
}

/**
 * Says that slots passed while no runner worked, or while the schedule was paused. The next run replaces them all.
 */
export interface SweepMissed extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: SweepMissedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:sweep.missed:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.sweep.missed.v1";
}

/**
 * The data of SweepPlanned.
 */
export interface SweepPlannedData {
  /**
   * The name of the schedule.
   */
  schedule: string;
  /**
   * The planned firing.
   */
  slot: string;
  /**
   * The slots that passed before it while no runner worked.
   */
  missed?: string[];
  /**
   * The hash of the plan.
   */
  plan: string;
  /**
   * How many proxies are due, without those that were renewed and not read since.
   */
  due: number;
  /**
   * Without those of unknown price.
   */
  estimate_cents: number;
  /**
   * `unknown_price` counts the planned proxies whose price is not known.
   */
  unknown_price?: number;
  /**
   * The commands, as they are published.
   */
  commands: unknown[];
  /**
   * `planned` says of each of `commands` what it is expected to cost.
   */
  planned?: {
    /**
     * The id of the command, chosen by its producer.
     */
    command_id: string;
    /**
     * How many proxies.
     */
    proxy_count: number;
    /**
     * Without those of unknown price.
     */
    estimate_cents: number;
    /**
     * `unknown_price` counts, of `proxy_count`, those whose price is not known.
     */
    unknown_price?: number;
    /**
     * What offers ask for those of unknown price, if a limit of money counts it.
     */
    list_price_cents?: number;
  }[];
  /**
   * `of` is the first slot of the sweep whose rest this slot takes.
   */
  of?: string;
  /**
   * `left` is what the run continues with, in further slots.
   */
  left?: {
    /**
     * How many proxies.
     */
    proxy_count: number;
    /**
     * `unpriced` counts, of `proxy_count`, those that wait for the first of their kind to tell its price.
     */
    unpriced?: number;
    /**
     * `first_expires_at` is when the first of them that lives expires: until then the sweep has to have come to it.
     */
    first_expires_at?: string;
  };
  /**
   * `unusable` counts the proxies that no sweep renews: those of `due` whose id or expiry no command can say, and the entries of the listing that could not be read.
   */
  unusable?: number;
  /**
   * Of a sweep that a person asked for, as `reason` and `user`.
   */
  by?: string;
  /**
   * Why, for people; it may be reworded.
   */
  reason?: string;
  /**
   * The NATS user that asked, if the server authenticated one.
   */
  user?: string;
}

/**
 * Says that a slot fired and these commands are its plan.
 */
export interface SweepPlanned extends CloudEvent {
  /**
   * The fact, and its place in the journal.
   */
  data: SweepPlannedData & {
    /**
     * The position of an event in its journal. Every event carries it as data.ledger, so that auditors can prove that history was rewritten.
     */
    ledger: {
      /**
       * The row of the journal, from 1 without a gap; also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the row before it; 64 zeros in the first.
       */
      prev_hash: string;
      /**
       * The row's hash.
       */
      hash: string;
    };
  };
  /**
   * The $id of this schema.
   */
  dataschema: "urn:perennial:schema:sweep.planned:v1";
  /**
   * The type of the fact and the version of its shape.
   */
  type: "perennial.sweep.planned.v1";
}

/** Every event: switch on `type`. A type that is not here is newer than this file: ignore it. */
export type PerennialEvent =
  | AccountPaused
  | AccountResumed
  | CommandAccepted
  | CommandCancelled
  | CommandConflict
  | CommandFinished
  | CommandHeld
  | CommandRejected
  | CommandReleased
  | DeadDropped
  | DeadRequeued
  | LedgerArchived
  | LedgerBounded
  | LedgerDiscrepancy
  | LedgerOpened
  | LedgerReconciled
  | LedgerRecorded
  | LedgerUncompared
  | ListingShrunk
  | ListingUncovered
  | OperationOverran
  | OperationResolved
  | OperationReview
  | OperationSending
  | OperationUnsent
  | OperationWaiting
  | OrderAccepted
  | OrderDelivered
  | OrderListed
  | OrderProgressed
  | OrderRefunded
  | ProxyExpired
  | ProxyExpiring
  | ProxyGone
  | ProxyReinstated
  | ProxyReplaced
  | ProxyRetired
  | ProxyRevealed
  | ProxyReview
  | ProxySkipped
  | RenewalCompleted
  | RenewalFailed
  | RenewalPartial
  | RunnerStarted
  | ScheduleConfigured
  | SchedulePaused
  | ScheduleResumed
  | SweepFailed
  | SweepFinished
  | SweepHeld
  | SweepMissed
  | SweepPlanned;

/** Every command. */
export type PerennialCommand =
  | OrderCreateCommand
  | ProxyRenewCommand;
