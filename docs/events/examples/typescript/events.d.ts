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
 * The JSON form of an order in the commands stream. A message with other fields is refused.
 */
export type OrderCreateCommand = {
  /**
   * The id of the command, chosen by its producer. The same id with the same content is always the same command.
   */
  id: string;
  /**
   * The duration in days, a multiple of 30.
   */
  duration_days: number;
  /**
   * The offers and quantities.
   */
  items?:
    | {
        /**
         * The code of the offer.
         */
        offer_code: string;
        /**
         * The number of proxies.
         */
        quantity: number;
        /**
         * The address ranges to choose from.
         */
        cidrs?: string[] | null;
      }[]
    | null;
  /**
   * The code of the offer, if the command has no `items`.
   */
  offer_code?: string | null;
  /**
   * The number of proxies, if the command has no `items`.
   */
  quantity?: number | null;
  /**
   * The most that the whole command may cost, checked before sending; if omitted, no limit.
   */
  max_total_cents?: number | null;
  /**
   * Send no first request after this time.
   */
  not_after?: string | null;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string | null;
  } | null;
  /**
   * What the provider's sandbox does with the order; only for a sandbox account.
   */
  sandbox_scenario?: "success" | "delayed" | "partial" | "rejected" | "" | null;
  /**
   * high goes before all other commands, bulk after them.
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
 * The JSON form of a renewal in the commands stream. A message with other fields is refused.
 */
export interface ProxyRenewCommand {
  /**
   * The id of the command, chosen by its producer. The same id with the same content is always the same command.
   */
  id: string;
  /**
   * The provider's ids of the proxies.
   */
  proxy_ids: string[];
  /**
   * The duration in days, a multiple of 30.
   */
  duration_days: number;
  /**
   * The most that the whole command may cost, checked before sending; if omitted, no limit.
   */
  max_total_cents?: number | null;
  /**
   * Send no first request after this time.
   */
  not_after?: string | null;
  /**
   * Skip proxies that expire later than this time.
   */
  due_before?: string | null;
  /**
   * The expected expiry of each proxy. Skip proxies with another expiry.
   */
  expect_expires_at?: {
    [k: string]: string;
  } | null;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string | null;
  } | null;
  /**
   * high goes before all other commands, bulk after them.
   */
  priority?: "high" | "bulk" | "" | null;
}

/**
 * The data of AccountPaused.
 */
export interface AccountPausedData {
  /**
   * The scope of the pause: the account, or one kind of operation.
   */
  scope: "account" | "order" | "renewal";
  /**
   * The cause, in one word: rate_limited, insufficient_wallet_balance, …
   */
  cause: string;
  /**
   * The reason, for people.
   */
  detail: string;
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * When the pause ends automatically; omitted if it does not.
   */
  until?: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that the account, or one kind of its operations, sends no requests. If `until` is set, the pause ends at that time, for example after a Retry-After.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The scope of the pause: the account, or one kind of operation.
   */
  scope: "account" | "order" | "renewal";
  /**
   * The cause, in one word: rate_limited, insufficient_wallet_balance, …
   */
  cause: string;
  /**
   * The reason, for people.
   */
  detail?: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
  /**
   * `presume_sent_by` ends the pause of a restored ledger, if no read has explained the lost time. Everything that has not ended then counts as possibly sent, with this App ID. So do the commands that come before `presume_until`.
   */
  presume_sent_by?: string;
  /**
   * The start of the time that a restored ledger may have lost.
   */
  lost_since?: string;
  /**
   * Commands that come before this time count as possibly sent; omitted if this is 24 hours after the fact.
   */
  presume_until?: string;
  /**
   * Schedules plan again from this time, because a read may lag.
   */
  schedules_from?: string;
  /**
   * `renewed` has up to 2,000 proxies that were renewed in the lost time: they expire later than the ledger explains.
   */
  renewed?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The latest expiry that the ledger explains.
     */
    expires_at: string;
  }[];
  /**
   * What may have been paid in the lost time is not sent and needs review.
   */
  review_lost?: boolean;
  /**
   * `unseen` has up to 2,000 ids of proxies whose expiry could not be compared, so that they may have been renewed in the lost time.
   */
  unseen?: string[];
}

/**
 * Records the end of a pause.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The kind of the command.
   */
  kind: "order" | "renewal";
  /**
   * The SHA-256 of the content.
   */
  content_hash: string;
  /**
   * The command, as read and normalised.
   */
  content: {
    [k: string]: unknown;
  };
  /**
   * The expected cost, if known.
   */
  estimate_cents?: number;
  /**
   * The duration in days, a multiple of 30.
   */
  duration_days: number;
  /**
   * The operations of the command.
   */
  operations: {
    /**
     * The id of the operation: the command's id and the part, such as restock-7/1.
     */
    operation_id: string;
    /**
     * The part of the command, such as 0001.
     */
    chunk: string;
    /**
     * The number of the idempotency key for this part of the command, from 1. Each --send-again or retry makes a new key.
     */
    generation: number;
    /**
     * The idempotency key, under which the provider carries out the operation once.
     */
    idempotency_key: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids?: string[];
  }[];
  /**
   * `reply_to` is the inbox that receives the data of the command's command.finished.
   */
  reply_to?: string;
  /**
   * `stream_sequence` is the sequence of the command's message in the commands stream, as in the producer's acknowledgement (PubAck).
   */
  stream_sequence?: number;
  /**
   * `presume_sent_by` says that the new operations may have been sent before the ledger was restored, with this App ID.
   */
  presume_sent_by?: string;
  /**
   * The earliest time from which `presume_sent_by` counts.
   */
  presumed_sent_at?: string;
}

/**
 * Records that a command was accepted. Another fact records the end of every accepted command.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Cancels an operation that the provider cannot have executed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The SHA-256 of the content.
   */
  content_hash: string;
  /**
   * The SHA-256 of the content that was accepted first.
   */
  accepted_hash: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * `stream_sequence` is the sequence, in the commands stream, of the message that came later.
   */
  stream_sequence?: number;
}

/**
 * Records that a command arrived under an id for which other content was accepted before. The first content stays in force.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * How often the command has ended, from 1.
   */
  revision: number;
  /**
   * The state of the command.
   */
  state: "rejected" | "delivered" | "refunded" | "completed" | "partial" | "failed" | "resolved";
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code?: string;
  /**
   * The reason, for people; the text may change.
   */
  reason?: string;
  /**
   * The running totals; do not sum them.
   */
  totals: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * `lines` has the proxies that an order delivered, or that a renewal contains: at most 200 of `lines_total`.
   */
  lines: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The code of the offer, if the order has only one offer.
     */
    offer_code?: string;
    /**
     * The country of the address, as the provider says.
     */
    country_code?: string;
    /**
     * The region of the address, as the provider says.
     */
    region?: string;
    /**
     * The product line, in the provider's words.
     */
    line_name?: string;
    /**
     * The IP type, such as residential or data centre, in the provider's words.
     */
    ip_type?: string;
    /**
     * The protocol, in the provider's words.
     */
    protocol?: string;
    /**
     * When the proxy expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies.
     */
    charged_cents?: number;
    /**
     * delivered, or the state of a renewal's line.
     */
    state: "delivered" | "pending" | "skipped" | "succeeded" | "failed" | "unresolved" | "charged" | "not_charged";
    /**
     * `previous_expires_at` is the expiry that the renewal paid for. If it was in the future, `expires_at` adds the paid days to it; the next listing reads what the provider shows.
     */
    previous_expires_at?: string;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
  }[];
  /**
   * The number of all lines.
   */
  lines_total: number;
  /**
   * `operations` has at most 200 of `operations_total`.
   */
  operations: {
    /**
     * The id of the operation: the command's id and the part, such as restock-7/1.
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
     * For an order with missing proxies: the number ordered; `delivered_count` is the number delivered.
     */
    expected_count?: number;
    /**
     * How many proxies were delivered.
     */
    delivered_count?: number;
  }[];
  /**
   * The number of all operations.
   */
  operations_total: number;
  /**
   * How many attempts the command's operations had.
   */
  attempts: number;
  /**
   * How often an operation of the command needed review.
   */
  reviews: number;
  /**
   * The inbox that receives this data.
   */
  reply_to?: string;
  /**
   * `stream_sequence` is the sequence of the command's message in the commands stream; omitted once its acceptance is archived.
   */
  stream_sequence?: number;
}

/**
 * Records the results of a command once none of its operations is in progress or in review. The ledger appends it with the fact that ends the command's last operation or refuses the command. A command may be opened again, for example because an operator sends an operation again. In that case it finishes once more, with the next revision.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The reason, for programs; older facts have none.
   */
  code?: "daily_limit" | "unknown_price" | "no_cidr_field";
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The expected cost, if known.
   */
  estimate_cents?: number;
  /**
   * `until` is when the hold ends automatically; if omitted, only an operator can release it.
   */
  until?: string;
}

/**
 * Puts an operation on hold, so that it is not sent until it is released.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The SHA-256 of the content.
   */
  content_hash?: string;
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The number of the attempt, from 1.
   */
  attempt?: number;
  /**
   * `short_of_money` says that the wallet could not pay (insufficient_wallet_balance).
   */
  short_of_money?: boolean;
  /**
   * `split_into` lists the operations that replace a refused or divided chunk.
   */
  split_into?: {
    /**
     * The id of the operation: the command's id and the part, such as restock-7/1.
     */
    operation_id: string;
    /**
     * The part of the command, such as 0001.
     */
    chunk: string;
    /**
     * The number of the idempotency key for this part of the command, from 1. Each --send-again or retry makes a new key.
     */
    generation: number;
    /**
     * The idempotency key, under which the provider carries out the operation once.
     */
    idempotency_key: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids?: string[];
  }[];
  /**
   * The duration in days, a multiple of 30.
   */
  duration_days?: number;
  /**
   * `reply_to` is the inbox that receives the data of command.finished, if the command was refused before it was accepted.
   */
  reply_to?: string;
  /**
   * `stream_sequence` is the sequence of the message in the commands stream, if the command was refused before it was accepted.
   */
  stream_sequence?: number;
}

/**
 * Ends a command, or one operation of a command, without a charge. The command or operation was refused on arrival, refused by the provider, or never sent.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
  /**
   * `automatic` says that the hold ended at its time. The operation may be put on hold again, unlike after a release by a person.
   */
  automatic?: boolean;
}

/**
 * Ends the hold of an operation, so that it can be sent.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The sequence of the message in the stream of dead letters.
   */
  letter_seq: number;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that an operator permanently removed a dead letter, a command that could not be read. It is appended before the removal. If the dead letter is still listed, the removal did not succeed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The sequence of the message in the stream of dead letters.
   */
  letter_seq: number;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
  /**
   * The SHA-256 of the corrected command that was published instead; omitted if the message was published unchanged.
   */
  content_hash?: string;
}

/**
 * Records that an operator requeued a dead letter, a command that could not be read. It is appended before the command is published and the dead letter is removed. If the dead letter is still listed, the command may not have been published.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * `before` is the requested time; facts of this time and later stay.
   */
  before: string;
  /**
   * The first archived row.
   */
  first_seq: number;
  /**
   * The last archived row.
   */
  last_seq: number;
  /**
   * The hash of the last archived row.
   */
  last_hash: string;
  /**
   * `last_time` is the time of the last archived row.
   */
  last_time: string;
  /**
   * `snapshot_hash` covers every derived table as it was after the last archived row.
   */
  snapshot_hash: string;
  /**
   * The name of the archive file, without its directory.
   */
  file: string;
  /**
   * The currency of the balances. The balances are those of `ledger balance` after the last archived row.
   */
  currency: string;
  /**
   * The balance of the wallet by the books.
   */
  wallet_cents: number;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
   */
  refunded_cents: number;
  /**
   * Charges whose result is unknown.
   */
  suspense_cents: number;
  /**
   * Money put in: the opening balance and top-ups.
   */
  funding_cents: number;
  /**
   * Money spent outside Perennial.
   */
  external_cents: number;
  /**
   * `month_ends` has the last row of each month that ended within the archived rows.
   */
  month_ends?: {
    /**
     * When the next month began.
     */
    until: string;
    /**
     * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
     */
    seq: number;
    /**
     * The row's hash.
     */
    hash: string;
  }[];
}

/**
 * Records that journal rows were moved to an archive file. The ledger's journal begins after `last_seq`, the last moved row. `snapshot_hash` covers the derived tables as they were after that row.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * `first_seq` is the event that the stream begins with. Earlier events may be removed at any time after this fact.
   */
  first_seq: number;
  /**
   * `last_seq` and `last_hash` are those of the last row in the snapshot.
   */
  last_seq: number;
  /**
   * The hash of the last row in the snapshot.
   */
  last_hash: string;
  /**
   * The hash over every derived table after the last row.
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
   * `held_by` is a durable consumer that has not acknowledged the events from `first_seq` to `last_seq`; therefore these events stay.
   */
  held_by?: string;
  /**
   * `lost` lists the durable consumers that had not acknowledged every event before `first_seq`; a person allowed this loss.
   */
  lost?: string[];
}

/**
 * Records that the events stream begins with a later event from now on. A snapshot in the account's bucket replaces the removed events. The snapshot was read back before this fact was appended. The ledger.archived fact of the same snapshot confirms its content.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The kind of the finding, in one word; docs/operations.md explains each.
   */
  finding: string;
  /**
   * The amount of the difference.
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
   * The difference, in words for people.
   */
  explanation: string;
}

/**
 * Records a difference between the books and the provider that no record explains. It corrects nothing.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The account's currency, an ISO 4217 code.
   */
  currency: string;
  /**
   * The balance of the wallet when the ledger was opened.
   */
  opening_cents: number;
  /**
   * The id of this history; each restore begins a new history.
   */
  epoch: string;
  /**
   * `restored` is set if this history begins with a restore.
   */
  restored?: {
    /**
     * The source of the restore.
     */
    from: "backup" | "events";
    /**
     * `since` is the time of the last restored row. Requests that were sent later may be unknown to the ledger.
     */
    since: string;
    /**
     * `app_id` is the App ID that unknown requests are assumed to have used.
     */
    app_id: string;
    /**
     * `proven` says that the last row is the last event of the stream.
     */
    proven: boolean;
  };
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * Binds the ledger to a provider account and books the opening balance. It is the first fact of an epoch. After a restore the binding stays the same, and nothing is booked.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The balance of the wallet by the books.
   */
  wallet_cents: number;
  /**
   * The balance of the provider's wallet.
   */
  provider_cents: number;
  /**
   * Whether nothing was in progress when the wallet was read.
   */
  quiet: boolean;
}

/**
 * Records that the books were compared with the provider and agreed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * What was recorded: money put into the wallet, money spent outside Perennial, or a charge or refund.
   */
  movement: "top-up" | "external" | "charge" | "refund";
  /**
   * The amount.
   */
  amount_cents: number;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
  /**
   * `order_no` is the order that was paid for or refunded, if known.
   */
  order_no?: string;
  /**
   * The proxy of a renewal.
   */
  proxy_id?: string;
  /**
   * `id` is chosen by the person; a record with the same id is booked once.
   */
  id?: string;
  /**
   * `account` is external for a top-up that reverses recorded spending, and funding for spending that reverses a top-up. It lowers the sum of that account.
   */
  account?: string;
  /**
   * `corrects_seq` is the journal row, of a record or of an answer to a review, that this record reverses or corrects.
   */
  corrects_seq?: number;
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * Books, in an operator's name, money that moved outside Perennial, or a charge or refund that no reply showed. `operation_id` is the operation of a charge or refund.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The balance of the wallet by the books.
   */
  wallet_cents: number;
  /**
   * The balance of the provider's wallet.
   */
  provider_cents: number;
  /**
   * `operation_ids` lists the operations of unknown cost, the first 20 of `operations_total`.
   */
  operation_ids: string[];
  /**
   * The number of all operations.
   */
  operations_total: number;
}

/**
 * Records that the wallet cannot be compared with the books. The reason is that operations with neither a known cost nor a limit are open. It is published once, and again only after a comparison was possible.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * How many of `known` the listing lacks.
   */
  not_listed: number;
  /**
   * `proxy_ids` lists some of the missing proxies; empty if their entries cannot be read.
   */
  proxy_ids: string[];
}

/**
 * Records that a complete listing lacked a large share of the live proxies, or that their entries could not be read. A missing proxy is not necessarily gone. It stays due and is included in warnings, but is read before it is paid for.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * How many living proxies no schedule renews, because they are in none or have no known expiry; 0 when there are none any more.
   */
  uncovered: number;
  /**
   * `proxy_ids` lists at most 20 of these proxies, nearest expiry first.
   */
  proxy_ids: string[];
  /**
   * `first_expires_at` is when the first of these proxies expires.
   */
  first_expires_at?: string;
}

/**
 * Records how many live proxies no schedule renews, according to two complete listings. These proxies expire unless a command renews them. The fact is published when the first such proxies appear, and with 0 when none are left. A change of the number, or the expiry of the first proxy, is published at most once a day.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The expected cost, if known.
   */
  estimate_cents: number;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
}

/**
 * Records that an operation was charged more than its estimate, for example because the provider's price rose.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
  /**
   * The person's answer.
   */
  outcome: "charged" | "not_charged";
  /**
   * The provider's id of the proxy.
   */
  proxy_id?: string;
  /**
   * `order_no` is the order that the operation made, as the person found.
   */
  order_no?: string;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * `proxy_ids` and `proxies` are what that order delivered, as read for the answer.
   */
  proxy_ids?: string[];
  /**
   * The proxies that the order delivered.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The code of the offer, if the order has only one offer.
     */
    offer_code?: string;
    /**
     * The country of the address, as the provider says.
     */
    country_code?: string;
    /**
     * The region of the address, as the provider says.
     */
    region?: string;
    /**
     * The product line, in the provider's words.
     */
    line_name?: string;
    /**
     * The IP type, such as residential or data centre, in the provider's words.
     */
    ip_type?: string;
    /**
     * The protocol, in the provider's words.
     */
    protocol?: string;
    /**
     * When the proxy expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
  /**
   * The operations that replace this one, if it is sent again under a new key.
   */
  send_again?: {
    /**
     * The id of the operation: the command's id and the part, such as restock-7/1.
     */
    operation_id: string;
    /**
     * The part of the command, such as 0001.
     */
    chunk: string;
    /**
     * The number of the idempotency key for this part of the command, from 1. Each --send-again or retry makes a new key.
     */
    generation: number;
    /**
     * The idempotency key, under which the provider carries out the operation once.
     */
    idempotency_key: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids?: string[];
  }[];
  /**
   * The duration in days, a multiple of 30.
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
     * The amount charged, before refunds.
     */
    charged_cents: number;
  }[];
  /**
   * `presume_sent_by` says that the new operations may have been sent before the ledger was restored, with this App ID.
   */
  presume_sent_by?: string;
  /**
   * The earliest time from which `presume_sent_by` counts.
   */
  presumed_sent_at?: string;
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * An operator's answer to a review.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code?: string;
  /**
   * The HTTP status of the reply.
   */
  http_status?: number;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * Whether the provider may have carried out the request.
   */
  ambiguous: boolean;
  /**
   * The provider's number of the order.
   */
  order_no?: string;
  /**
   * The known lines.
   */
  settlement?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
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
       * The amount charged, before refunds.
       */
      charged_cents: number;
      /**
       * The amount refunded.
       */
      refunded_cents: number;
    }[];
  };
  /**
   * `proxy_ids` and `proxies` are those of the order, as shown by the read that caused the review.
   */
  proxy_ids?: string[];
  /**
   * The proxies that the order delivered.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The code of the offer, if the order has only one offer.
     */
    offer_code?: string;
    /**
     * The country of the address, as the provider says.
     */
    country_code?: string;
    /**
     * The region of the address, as the provider says.
     */
    region?: string;
    /**
     * The product line, in the provider's words.
     */
    line_name?: string;
    /**
     * The IP type, such as residential or data centre, in the provider's words.
     */
    ip_type?: string;
    /**
     * The protocol, in the provider's words.
     */
    protocol?: string;
    /**
     * When the proxy expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * Records that the operation needs review, with the results known so far. The known lines of a renewal are booked; unresolved lines are booked to suspense.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The idempotency key, under which the provider carries out the operation once.
   */
  idempotency_key: string;
  /**
   * The exact body of the request.
   */
  body: string;
  /**
   * When the request was signed.
   */
  sent_at: string;
  /**
   * The App ID of the API key that signed the request, without its secret.
   */
  app_id: string;
  /**
   * `observed_expires_at` has the expiries that this attempt pays for, as last seen or just read.
   */
  observed_expires_at?: {
    [k: string]: string;
  };
  /**
   * `estimate_cents` is the highest expected cost of this attempt, if known.
   */
  estimate_cents?: number;
}

/**
 * Stored before the first byte of an attempt is sent. It contains the idempotency key, the exact body and the signed X-API-Timestamp.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The earliest time of the next step.
   */
  next_at: string;
}

/**
 * Records that no byte of an attempt's request was sent.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code?: string;
  /**
   * The HTTP status of the reply.
   */
  http_status?: number;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * `ambiguous` says that the provider may have carried out this attempt.
   */
  ambiguous: boolean;
  /**
   * The earliest time of the next step.
   */
  next_at: string;
}

/**
 * Records that the operation will be sent again, at `next_at` or later. The key and the body stay the same.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The earliest time of the next step.
   */
  next_at: string;
}

/**
 * Records that the provider accepted the order (HTTP 201). It books nothing.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The status, in the provider's words.
   */
  status: string;
  /**
   * How many proxies were ordered.
   */
  expected_count: number;
  /**
   * How many proxies were delivered.
   */
  delivered_count: number;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
   */
  refunded_cents: number;
  /**
   * `read_at` is when the order was last read, including this read.
   */
  read_at?: string;
  /**
   * `unread_since` is the first of the consecutive failed reads, up to this one.
   */
  unread_since?: string;
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The provider's ids of the proxies.
   */
  proxy_ids: string[];
  /**
   * `proxies` has the details of `proxy_ids`, as the provider showed them.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The code of the offer, if the order has only one offer.
     */
    offer_code?: string;
    /**
     * The country of the address, as the provider says.
     */
    country_code?: string;
    /**
     * The region of the address, as the provider says.
     */
    region?: string;
    /**
     * The product line, in the provider's words.
     */
    line_name?: string;
    /**
     * The IP type, such as residential or data centre, in the provider's words.
     */
    ip_type?: string;
    /**
     * The protocol, in the provider's words.
     */
    protocol?: string;
    /**
     * When the proxy expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
  /**
   * `short` is set if fewer proxies were delivered than ordered.
   */
  short?: {
    /**
     * The number of ordered proxies.
     */
    ordered_count: number;
    /**
     * The number of entries in the order's list of proxies.
     */
    listed_count: number;
  };
}

/**
 * Records that the provider reports the order as complete and available.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
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
   * `proxies` has the details of `proxy_ids`, as the provider showed them.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The code of the offer, if the order has only one offer.
     */
    offer_code?: string;
    /**
     * The country of the address, as the provider says.
     */
    country_code?: string;
    /**
     * The region of the address, as the provider says.
     */
    region?: string;
    /**
     * The product line, in the provider's words.
     */
    line_name?: string;
    /**
     * The IP type, such as residential or data centre, in the provider's words.
     */
    ip_type?: string;
    /**
     * The protocol, in the provider's words.
     */
    protocol?: string;
    /**
     * When the proxy expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
}

/**
 * Records that an ended order shows proxies that no earlier fact contains. This happens if a review was answered while the order could not be read. The proxies get the order's labels.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The status, in the provider's words.
   */
  status: string;
  /**
   * How many proxies were ordered.
   */
  expected_count: number;
  /**
   * How many proxies were delivered.
   */
  delivered_count: number;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
   */
  refunded_cents: number;
  /**
   * `read_at` is when the order was last read, including this read.
   */
  read_at?: string;
  /**
   * `unread_since` is the first of the consecutive failed reads, up to this one.
   */
  unread_since?: string;
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The earliest time of the next step.
   */
  next_at: string;
  /**
   * The reason, for people; the text may change.
   */
  reason?: string;
}

/**
 * Records that the order has not ended, and is read again at `next_at`.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's number of the order.
   */
  order_no: string;
  /**
   * The status, in the provider's words.
   */
  status: string;
  /**
   * How many proxies were ordered.
   */
  expected_count: number;
  /**
   * How many proxies were delivered.
   */
  delivered_count: number;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
   */
  refunded_cents: number;
  /**
   * `read_at` is when the order was last read, including this read.
   */
  read_at?: string;
  /**
   * `unread_since` is the first of the consecutive failed reads, up to this one.
   */
  unread_since?: string;
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The status of the refund, in the provider's words.
   */
  refund_status: string;
  /**
   * Where the refund went, in the provider's words.
   */
  destination: string;
  /**
   * When the money was refunded.
   */
  refunded_at: string;
  /**
   * `proxy_ids` and `proxies` are what the order delivered nevertheless.
   */
  proxy_ids?: string[];
  /**
   * The proxies that the order delivered.
   */
  proxies?: {
    /**
     * The provider's id of the proxy.
     */
    proxy_id: string;
    /**
     * The code of the offer, if the order has only one offer.
     */
    offer_code?: string;
    /**
     * The country of the address, as the provider says.
     */
    country_code?: string;
    /**
     * The region of the address, as the provider says.
     */
    region?: string;
    /**
     * The product line, in the provider's words.
     */
    line_name?: string;
    /**
     * The IP type, such as residential or data centre, in the provider's words.
     */
    ip_type?: string;
    /**
     * The protocol, in the provider's words.
     */
    protocol?: string;
    /**
     * When the proxy expires.
     */
    expires_at?: string;
    /**
     * `charged_cents` is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies.
     */
    charged_cents?: number;
  }[];
}

/**
 * Records that the provider refunded the order.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * When the proxy expires.
   */
  expires_at: string;
}

/**
 * Records, once for each expiry, that a proxy has expired.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * When the proxy expires.
   */
  expires_at: string;
  /**
   * `threshold_seconds` is the configured time before the expiry (warn_before).
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The expiry that was last shown.
   */
  expires_at?: string;
}

/**
 * Records that the provider no longer knows a proxy that had not expired. A read of the proxy returned proxy_not_found. The proxy is not renewed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that schedules renew the proxy again. From this fact on, renewals that end without renewing the proxy are counted anew.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * When the proxy expires.
   */
  expires_at: string;
  /**
   * The id of the command, chosen by its producer.
   */
  command_id: string;
  /**
   * The command, as published.
   */
  command: {
    [k: string]: unknown;
  };
  /**
   * `max_total_cents` is the limit of the order.
   */
  max_total_cents: number;
}

/**
 * Records that the provider would not renew the proxy, and that its schedule orders a replacement. The fact does not say that the replacement was bought.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that schedules no longer renew the proxy. The proxy stays listed until it expires, and an operator's command can still renew it.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that an operator requested the proxy's credentials in the web UI. The credentials are read from the provider only after this fact is stored. No fact contains them.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
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
   * When the proxy expires.
   */
  expires_at: string;
  /**
   * How many renewals in a row did not renew the proxy.
   */
  endings_without_renewal: number;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
}

/**
 * Records that several renewals of the proxy ended without renewing it. Schedules skip the proxy until it is reviewed. `operation_id` is the last of these renewals. The review stays in v_reviews until the proxy is retired, reinstated or renewed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id?: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The provider's id of the proxy.
   */
  proxy_id?: string;
  /**
   * The reason, for programs; older facts have none.
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
   * The reason, for people; the text may change.
   */
  reason?: string;
  /**
   * When the proxy expires.
   */
  expires_at?: string;
  /**
   * A list of proxies that were left out for the same reason.
   */
  skipped?: {
    /**
     * The reason, for programs; older facts have none.
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
     * The reason, for people; the text may change.
     */
    reason: string;
    /**
     * The provider's ids of the proxies.
     */
    proxy_ids: string[];
    /**
     * `read_expires_at` has the expiries that were read, by proxy.
     */
    read_expires_at?: {
      [k: string]: string;
    };
  }[];
}

/**
 * Records that proxies were left out of a renewal, and why. For a single proxy, the fields `proxy_id`, `code`, `reason` and `expires_at` are set. For several proxies, `skipped` is set instead.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The status, in the provider's words.
   */
  status: "completed";
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code?: string;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
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
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
  }[];
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * The result of a renewal whose lists, lines and sums agree. The type of the fact depends on `status`: completed, partial or failed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The status, in the provider's words.
   */
  status: "failed";
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code?: string;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
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
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
  }[];
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * The result of a renewal whose lists, lines and sums agree. The type of the fact depends on `status`: completed, partial or failed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The id of the operation: the command's id and the part, such as restock-7/1.
   */
  operation_id: string;
  /**
   * The labels of the command, as given by its producer.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * The provider's trace id of the request, for its support.
   */
  trace_id?: string;
  /**
   * The W3C trace context of the command's message.
   */
  traceparent?: string;
  /**
   * The vendor-specific part of the trace context.
   */
  tracestate?: string;
  /**
   * The status, in the provider's words.
   */
  status: "partial";
  /**
   * The number of the attempt, from 1.
   */
  attempt: number;
  /**
   * The reason, as a code of the provider or of Perennial.
   */
  code?: string;
  /**
   * The amount charged, before refunds.
   */
  charged_cents: number;
  /**
   * The amount refunded.
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
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
  }[];
  /**
   * What this fact booked.
   */
  booked?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
  /**
   * The totals of the operation, including this fact.
   */
  totals?: {
    /**
     * The amount charged, before refunds.
     */
    charged_cents: number;
    /**
     * The amount refunded.
     */
    refunded_cents: number;
    /**
     * The account's currency, an ISO 4217 code.
     */
    currency: string;
  };
}

/**
 * The result of a renewal whose lists, lines and sums agree. The type of the fact depends on `status`: completed, partial or failed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The process that leads the account.
   */
  holder: string;
  /**
   * `recovered` counts the operations that were interrupted during a send.
   */
  recovered: number;
}

/**
 * Records that a runner started to lead the account.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The cron expression.
   */
  cron: string;
  /**
   * The time zone of the days and scheduled times.
   */
  timezone: string;
  /**
   * When the schedule's times begin to count.
   */
  since: string;
  /**
   * `was` is the schedule's earlier name. The spending, the plan that needs approval and the pause of that name belong to this schedule.
   */
  was?: string;
}

/**
 * Records that a schedule is new, or that its name, cron expression or time zone has changed. Scheduled times before `since` do not run. Scheduled times after `since` are caught up if they were missed.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * `until` is when the pause ends automatically; null if only a person resumes the schedule.
   */
  until?: string;
  /**
   * The name of the person, as given in the request.
   */
  by: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that a schedule does not run at its scheduled times until it is resumed. Commands that were planned before are still published, and an operator can still start a run.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The name of the person, as given in the request.
   */
  by?: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that a schedule runs at its scheduled times again. One run replaces all runs that were skipped during the pause. If `by` is empty, the pause ended at the time set for its end.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The scheduled time.
   */
  slot: string;
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * `due` counts the due, living proxies of the schedule, as last listed. `expiring` counts those of them that expire before `next_slot`.
   */
  due: number;
  /**
   * How many of the due proxies expire before the next scheduled time.
   */
  expiring: number;
  /**
   * The next scheduled time.
   */
  next_slot?: string;
  /**
   * When the first of the due proxies expires.
   */
  first_expires_at?: string;
}

/**
 * Records that a scheduled run failed, for example because the proxies could not be listed. It also records that the commands of a run were refused as invalid. The run is retried. Its success is recorded by sweep.planned.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The scheduled time.
   */
  slot: string;
  /**
   * The hash of the plan.
   */
  plan: string;
  /**
   * `published` is how many commands were published.
   */
  published: number;
  /**
   * `over_limit` counts the due proxies that were skipped because of a budget, the account's limit or the wallet; 'sweep.held' of the same scheduled time says which.
   */
  over_limit?: number;
  /**
   * `by` and `reason` belong to the person who approved the plan, or with `abandoned` declined it.
   */
  by?: string;
  /**
   * The reason, for people; the text may change.
   */
  reason?: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
  /**
   * `abandoned` says that commands of the plan may not have been published, and never will be; `reason` says why.
   */
  abandoned?: boolean;
}

/**
 * Records the end of a run's plan: all its commands are on the commands stream, or the plan was abandoned (`abandoned`).
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The scheduled time.
   */
  slot: string;
  /**
   * The hash of the plan.
   */
  plan: string;
  /**
   * `code` says, for programs, what the plan waits for; older facts have none.
   */
  code?: "approval" | "earlier_plan" | "budget" | "daily_budget" | "monthly_budget" | "daily_limit" | "wallet";
  /**
   * The reason, for people; the text may change.
   */
  reason: string;
  /**
   * How many due proxies are skipped.
   */
  left_out: number;
  /**
   * `shortfall_cents` is the amount that is missing for the skipped proxies, in the budget or in the wallet.
   */
  shortfall_cents: number;
  /**
   * `unknown_price` counts the skipped or waiting proxies whose price is unknown; `shortfall_cents` does not include them.
   */
  unknown_price?: number;
  /**
   * `first_lost_at` is when the first skipped proxy expires.
   */
  first_lost_at?: string;
  /**
   * `provider_cents` is the balance of the provider's wallet, if that is too low.
   */
  provider_cents?: number;
}

/**
 * Records that a plan needs approval, or that a money limit skips a part of the plan. There is one fact for each limit that the plan exceeds.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The scheduled times that were missed.
   */
  slots: string[];
  /**
   * The scheduled time whose run replaces the missed runs.
   */
  served_by: string;
}

/**
 * Records that scheduled times passed while no runner worked or the schedule was paused. The next run replaces all these runs.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
   * The scheduled time.
   */
  slot: string;
  /**
   * The scheduled times that passed while no runner worked.
   */
  missed?: string[];
  /**
   * The hash of the plan.
   */
  plan: string;
  /**
   * How many proxies are due, without proxies that were renewed and not read since.
   */
  due: number;
  /**
   * The expected cost, without proxies of unknown price.
   */
  estimate_cents: number;
  /**
   * `unknown_price` counts the planned proxies whose price is unknown.
   */
  unknown_price?: number;
  /**
   * The commands, as published.
   */
  commands: unknown[];
  /**
   * `planned` has the expected cost of each of `commands`.
   */
  planned?: {
    /**
     * The id of the command, chosen by its producer.
     */
    command_id: string;
    /**
     * The number of proxies.
     */
    proxy_count: number;
    /**
     * The expected cost, without proxies of unknown price.
     */
    estimate_cents: number;
    /**
     * `unknown_price` counts the proxies of the command whose price is unknown.
     */
    unknown_price?: number;
    /**
     * The list price of the proxies of unknown price, if it counts against a limit.
     */
    list_price_cents?: number;
    /**
     * The expected cost of each proxy, in the order of the command's `proxy_ids`. It is omitted if all cost the same, or if a price is unknown.
     */
    prices_cents?: number[];
  }[];
  /**
   * `of` is the first scheduled time of the run that this one continues.
   */
  of?: string;
  /**
   * `left` describes the proxies with which the run continues in further plans.
   */
  left?: {
    /**
     * The number of proxies.
     */
    proxy_count: number;
    /**
     * `unpriced` counts the proxies that wait for the first proxy of their kind to show the price.
     */
    unpriced?: number;
    /**
     * `first_expires_at` is when the first living one of these proxies expires; the run must reach it before then.
     */
    first_expires_at?: string;
  };
  /**
   * `unusable` counts the proxies that no schedule can renew: due proxies whose id or expiry cannot be in a command, and unreadable entries of the listing.
   */
  unusable?: number;
  /**
   * The name of the person who asked for the run; `reason` and `user` belong to this person too.
   */
  by?: string;
  /**
   * The reason, for people; the text may change.
   */
  reason?: string;
  /**
   * The NATS user that sent the request, if the server authenticated the user.
   */
  user?: string;
}

/**
 * Records that a schedule's run was planned, with the commands of its plan.
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
       * The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream.
       */
      seq: number;
      /**
       * The hash of the previous row; 64 zeros in the first row.
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
