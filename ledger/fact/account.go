package fact

import (
	"cmp"
	"encoding/json"
	"time"
)

// SweepPlanned records that a schedule's run was planned, with the commands of its plan.
type SweepPlanned struct {
	accountFact
	Schedule      string            `json:"schedule" doc:"The name of the schedule."`
	Slot          time.Time         `json:"slot" doc:"The scheduled time."`
	Missed        []time.Time       `json:"missed,omitempty" doc:"The scheduled times that passed while no runner worked."`
	Plan          string            `json:"plan" doc:"The hash of the plan."`
	Due           int               `json:"due" doc:"How many proxies are due, without proxies that were renewed and not read since."`
	EstimateCents int64             `json:"estimate_cents" doc:"The expected cost, without proxies of unknown price."`
	UnknownPrice  int               `json:"unknown_price,omitempty" doc:"'unknown_price' counts the planned proxies whose price is unknown."`
	Commands      []json.RawMessage `json:"commands" doc:"The commands, as published."`
	Planned       []PlannedCommand  `json:"planned,omitempty" doc:"'planned' has the expected cost of each of 'commands'."`
	Of            *time.Time        `json:"of,omitempty" doc:"'of' is the first scheduled time of the run that this one continues."`
	Left          *SweepLeft        `json:"left,omitempty" doc:"'left' describes the proxies with which the run continues in further plans."`
	Unusable      int               `json:"unusable,omitempty" doc:"'unusable' counts the proxies that no schedule can renew: due proxies whose id or expiry cannot be in a command, and unreadable entries of the listing."`
	By            string            `json:"by,omitempty" doc:"The name of the person who asked for the run; 'reason' and 'user' belong to this person too."`
	Reason        string            `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	User          string            `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// SweepHeld records that a plan needs approval, or that a money limit skips a part of the plan.
// There is one fact for each limit that the plan exceeds.
type SweepHeld struct {
	accountFact
	Schedule       string        `json:"schedule" doc:"The name of the schedule."`
	Slot           time.Time     `json:"slot" doc:"The scheduled time."`
	Plan           string        `json:"plan" doc:"The hash of the plan."`
	Code           SweepHeldCode `json:"code,omitempty" doc:"'code' says, for programs, what the plan waits for; older facts have none."`
	Reason         string        `json:"reason" doc:"The reason, for people; the text may change."`
	LeftOut        int           `json:"left_out" doc:"How many due proxies are skipped."`
	ShortfallCents int64         `json:"shortfall_cents" doc:"'shortfall_cents' is the amount that is missing for the skipped proxies, in the budget or in the wallet."`
	UnknownPrice   int           `json:"unknown_price,omitempty" doc:"'unknown_price' counts the skipped or waiting proxies whose price is unknown; 'shortfall_cents' does not include them."`
	FirstLostAt    *time.Time    `json:"first_lost_at,omitempty" doc:"'first_lost_at' is when the first skipped proxy expires."`
	ProviderCents  *int64        `json:"provider_cents,omitempty" doc:"'provider_cents' is the balance of the provider's wallet, if that is too low."`
}

// SweepFinished records the end of a run's plan: all its commands are on the commands
// stream, or the plan was abandoned (Abandoned).
type SweepFinished struct {
	accountFact
	Schedule  string    `json:"schedule" doc:"The name of the schedule."`
	Slot      time.Time `json:"slot" doc:"The scheduled time."`
	Plan      string    `json:"plan" doc:"The hash of the plan."`
	Published int       `json:"published" doc:"'published' is how many commands were published."`
	OverLimit int       `json:"over_limit,omitempty" doc:"'over_limit' counts the due proxies that were skipped because of a budget, the account's limit or the wallet; 'sweep.held' of the same scheduled time says which."`
	By        string    `json:"by,omitempty" doc:"'by' and 'reason' belong to the person who approved the plan, or with 'abandoned' declined it."`
	Reason    string    `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	User      string    `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	Abandoned bool      `json:"abandoned,omitempty" doc:"'abandoned' says that commands of the plan may not have been published, and never will be; 'reason' says why."`
}

// SweepMissed records that scheduled times passed while no runner worked or the schedule
// was paused. The next run replaces all these runs.
type SweepMissed struct {
	accountFact
	Schedule string      `json:"schedule" doc:"The name of the schedule."`
	Slots    []time.Time `json:"slots" doc:"The scheduled times that were missed."`
	ServedBy time.Time   `json:"served_by" doc:"The scheduled time whose run replaces the missed runs."`
}

// ProxyExpiring warns, once for each expiry and threshold, that a proxy expires soon and
// has not been renewed.
type ProxyExpiring struct {
	ProxyID          string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt        time.Time `json:"expires_at" doc:"When the proxy expires."`
	ThresholdSeconds int64     `json:"threshold_seconds,omitempty" doc:"'threshold_seconds' is the configured time before the expiry (warn_before)."`
}

// ProxyExpired records, once for each expiry, that a proxy has expired.
type ProxyExpired struct {
	ProxyID   string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the proxy expires."`
}

// ProxyGone records that the provider no longer knows a proxy that had not expired. A read
// of the proxy returned proxy_not_found. The proxy is not renewed.
type ProxyGone struct {
	ProxyID   string     `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"The expiry that was last shown."`
}

// AccountPaused records that the account, or one kind of its operations, sends no requests.
// If Until is set, the pause ends at that time, for example after a Retry-After.
type AccountPaused struct {
	accountFact
	Scope   string     `json:"scope" doc:"The scope of the pause: the account, or one kind of operation."` // account | order | renewal
	Cause   string     `json:"cause" doc:"The cause, in one word: rate_limited, insufficient_wallet_balance, …"`
	Detail  string     `json:"detail" doc:"The reason, for people."`
	TraceID string     `json:"trace_id,omitempty" doc:"The provider's trace id of the request, for its support."`
	Until   *time.Time `json:"until,omitempty" doc:"When the pause ends automatically; omitted if it does not."`
	User    string     `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// AccountResumed records the end of a pause.
type AccountResumed struct {
	accountFact
	Scope         string `json:"scope" doc:"The scope of the pause: the account, or one kind of operation."`
	Cause         string `json:"cause" doc:"The cause, in one word: rate_limited, insufficient_wallet_balance, …"`
	Detail        string `json:"detail,omitempty" doc:"The reason, for people."`
	User          string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	PresumeSentBy string `json:"presume_sent_by,omitempty" doc:"'presume_sent_by' ends the pause of a restored ledger, if no read has explained the lost time. Everything that has not ended then counts as possibly sent, with this App ID. So do the commands that come before 'presume_until'."`
	// LostSince is set together with PresumeSentBy. Older facts do not have it.
	LostSince *time.Time `json:"lost_since,omitempty" doc:"The start of the time that a restored ledger may have lost."`
	// PresumeUntil is nil if it is 24 hours after the fact.
	PresumeUntil  *time.Time `json:"presume_until,omitempty" doc:"Commands that come before this time count as possibly sent; omitted if this is 24 hours after the fact."`
	SchedulesFrom *time.Time `json:"schedules_from,omitempty" doc:"Schedules plan again from this time, because a read may lag."`
	Renewed       []Renewed  `json:"renewed,omitempty" doc:"'renewed' has up to 2,000 proxies that were renewed in the lost time: they expire later than the ledger explains."`
	// ReviewLost is set by an operator. Unseen is omitted without it.
	ReviewLost bool     `json:"review_lost,omitempty" doc:"What may have been paid in the lost time is not sent and needs review."`
	Unseen     []string `json:"unseen,omitempty" doc:"'unseen' has up to 2,000 ids of proxies whose expiry could not be compared, so that they may have been renewed in the lost time."`
}

// Renewed is a proxy that was renewed in the time that a restored ledger has lost.
type Renewed struct {
	ProxyID   string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt time.Time `json:"expires_at" doc:"The latest expiry that the ledger explains."`
}

// Movements of a LedgerRecorded.
const (
	MovementTopUp    = "top-up"   // put into the wallet
	MovementExternal = "external" // spent outside Perennial
	MovementCharge   = "charge"   // charged for an operation, although no reply showed it
	MovementRefund   = "refund"   // refunded for an operation, although no reply showed it
)

// LedgerRecorded books, in an operator's name, money that moved outside Perennial, or a charge or
// refund that no reply showed. OperationID is the operation of a charge or refund.
type LedgerRecorded struct {
	Ref
	Movement    string `json:"movement" doc:"What was recorded: money put into the wallet, money spent outside Perennial, or a charge or refund."` // top-up | external | charge | refund
	AmountCents int64  `json:"amount_cents" doc:"The amount."`
	By          string `json:"by" doc:"The name of the person, as given in the request."`
	Reason      string `json:"reason" doc:"The reason, for people; the text may change."`
	User        string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	OrderNo     string `json:"order_no,omitempty" doc:"'order_no' is the order that was paid for or refunded, if known."`
	ProxyID     string `json:"proxy_id,omitempty" doc:"The proxy of a renewal."`
	ID          string `json:"id,omitempty" doc:"'id' is chosen by the person; a record with the same id is booked once."`
	// Account is the account of the books to which a reversal is booked. It is "" if Movement
	// determines the account. It is external for a top-up that reverses spending, and funding for
	// spending that reverses a top-up.
	Account  string `json:"account,omitempty" doc:"'account' is external for a top-up that reverses recorded spending, and funding for spending that reverses a top-up. It lowers the sum of that account."` // external | funding
	Corrects int64  `json:"corrects_seq,omitempty" doc:"'corrects_seq' is the journal row, of a record or of an answer to a review, that this record reverses or corrects."`
	Money
}

// Subject returns the operation of a charge or refund. For any other record, it returns the
// record's id with a prefix, by which the record can be found again. It returns "" if the record
// has no id.
func (f LedgerRecorded) Subject() string {
	switch {
	case f.OperationID != "":
		return f.OperationID
	case f.ID == "":
		return ""
	}
	return recordPrefix + f.ID
}

// BookAccount returns the account of the books that balances the wallet, for a top-up or
// spending outside Perennial.
func (f LedgerRecorded) BookAccount() string {
	if f.Movement == MovementExternal {
		return cmp.Or(f.Account, "external")
	}
	return cmp.Or(f.Account, "funding")
}

// Opposite returns the movement that reverses this one.
func (f LedgerRecorded) Opposite() string {
	return map[string]string{
		MovementTopUp: MovementExternal, MovementExternal: MovementTopUp, MovementCharge: MovementRefund, MovementRefund: MovementCharge,
	}[f.Movement]
}

// TakesBack returns the movement that the record takes back: external or top-up. It returns "" for any
// other record.
func (f LedgerRecorded) TakesBack() string {
	switch {
	case f.Movement == MovementTopUp && f.Account == "external":
		return MovementExternal
	case f.Movement == MovementExternal && f.Account == "funding":
		return MovementTopUp
	}
	return ""
}

// recordPrefix distinguishes the subjects of records from command ids.
const recordPrefix = "record:"

// LedgerUncompared records that the wallet cannot be compared with the books. The reason is that
// operations with neither a known cost nor a limit are open. It is published once, and again only
// after a comparison was possible.
type LedgerUncompared struct {
	accountFact
	WalletCents     int64    `json:"wallet_cents" doc:"The balance of the wallet by the books."`
	ProviderCents   int64    `json:"provider_cents" doc:"The balance of the provider's wallet."`
	OperationIDs    []string `json:"operation_ids" doc:"'operation_ids' lists the operations of unknown cost, the first 20 of 'operations_total'."`
	OperationsTotal int      `json:"operations_total" doc:"The number of all operations."`
}

// LedgerReconciled records that the books were compared with the provider and agreed.
type LedgerReconciled struct {
	accountFact
	WalletCents   int64 `json:"wallet_cents" doc:"The balance of the wallet by the books."`
	ProviderCents int64 `json:"provider_cents" doc:"The balance of the provider's wallet."`
	Quiet         bool  `json:"quiet" doc:"Whether nothing was in progress when the wallet was read."`
}

// LedgerDiscrepancy records a difference between the books and the provider that no record
// explains. It corrects nothing.
type LedgerDiscrepancy struct {
	Ref
	Finding     string `json:"finding" doc:"The kind of the finding, in one word; docs/operations.md explains each."`
	AmountCents int64  `json:"amount_cents" doc:"The amount of the difference."`
	OrderNo     string `json:"order_no,omitempty" doc:"The provider's number of the order."`
	ProxyID     string `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	Explanation string `json:"explanation" doc:"The difference, in words for people."`
}

// Binding is the provider account that a ledger belongs to.
type Binding struct {
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	BaseURL     string `json:"base_url"`
	Currency    string `json:"currency"`
	Epoch       string `json:"epoch"`
}

// LedgerArchived records that journal rows were moved to an archive file. The ledger's journal
// begins after LastSeq, the last moved row. SnapshotHash covers the derived tables as they
// were after that row.
type LedgerArchived struct {
	accountFact
	Before        time.Time  `json:"before" doc:"'before' is the requested time; facts of this time and later stay."`
	FirstSeq      int64      `json:"first_seq" doc:"The first archived row."`
	LastSeq       int64      `json:"last_seq" doc:"The last archived row."`
	LastHash      string     `json:"last_hash" doc:"The hash of the last archived row."`
	LastTime      time.Time  `json:"last_time" doc:"'last_time' is the time of the last archived row."`
	SnapshotHash  string     `json:"snapshot_hash" doc:"'snapshot_hash' covers every derived table as it was after the last archived row."`
	File          string     `json:"file" doc:"The name of the archive file, without its directory."`
	Currency      string     `json:"currency" doc:"The currency of the balances. The balances are those of 'ledger balance' after the last archived row."`
	WalletCents   int64      `json:"wallet_cents" doc:"The balance of the wallet by the books."`
	ChargedCents  int64      `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64      `json:"refunded_cents" doc:"The amount refunded."`
	SuspenseCents int64      `json:"suspense_cents" doc:"Charges whose result is unknown."`
	FundingCents  int64      `json:"funding_cents" doc:"Money put in: the opening balance and top-ups."`
	ExternalCents int64      `json:"external_cents" doc:"Money spent outside Perennial."`
	MonthEnds     []MonthEnd `json:"month_ends,omitempty" doc:"'month_ends' has the last row of each month that ended within the archived rows."`
}

// LedgerBounded records that the events stream begins with a later event from now on. A
// snapshot in the account's bucket replaces the removed events. The snapshot was read back
// before this fact was appended. The ledger.archived fact of the same snapshot confirms its
// content.
type LedgerBounded struct {
	accountFact
	FirstSeq     int64    `json:"first_seq" doc:"'first_seq' is the event that the stream begins with. Earlier events may be removed at any time after this fact."`
	LastSeq      int64    `json:"last_seq" doc:"'last_seq' and 'last_hash' are those of the last row in the snapshot."`
	LastHash     string   `json:"last_hash" doc:"The hash of the last row in the snapshot."`
	SnapshotHash string   `json:"snapshot_hash" doc:"The hash over every derived table after the last row."`
	Bucket       string   `json:"bucket" doc:"'bucket' and 'object' say where the snapshot is."`
	Object       string   `json:"object" doc:"The name of the snapshot in the bucket."`
	HeldBy       string   `json:"held_by,omitempty" doc:"'held_by' is a durable consumer that has not acknowledged the events from 'first_seq' to 'last_seq'; therefore these events stay."`
	Lost         []string `json:"lost,omitempty" doc:"'lost' lists the durable consumers that had not acknowledged every event before 'first_seq'; a person allowed this loss."`
}

// MonthEnd is the last row before a month (UTC) began.
type MonthEnd struct {
	Until time.Time `json:"until" doc:"When the next month began."`
	Seq   int64     `json:"seq" doc:"The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream."`
	Hash  string    `json:"hash" doc:"The row's hash."`
}

// ProxyRevealed records that an operator requested the proxy's credentials in the web UI.
// The credentials are read from the provider only after this fact is stored. No fact
// contains them.
type ProxyRevealed struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
	User    string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// DeadRequeued records that an operator requeued a dead letter, a command that could not be
// read. It is appended before the command is published and the dead letter is removed. If
// the dead letter is still listed, the command may not have been published.
type DeadRequeued struct {
	accountFact
	LetterSeq uint64 `json:"letter_seq" doc:"The sequence of the message in the stream of dead letters."`
	By        string `json:"by" doc:"The name of the person, as given in the request."`
	Reason    string `json:"reason" doc:"The reason, for people; the text may change."`
	User      string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	// ContentHash is the SHA-256, in hex, of the corrected command that was published instead. It
	// is "" if the message was published unchanged.
	ContentHash string `json:"content_hash,omitempty" doc:"The SHA-256 of the corrected command that was published instead; omitted if the message was published unchanged."`
}

// DeadDropped records that an operator permanently removed a dead letter, a command that
// could not be read. It is appended before the removal. If the dead letter is still listed,
// the removal did not succeed.
type DeadDropped struct {
	accountFact
	LetterSeq uint64 `json:"letter_seq" doc:"The sequence of the message in the stream of dead letters."`
	By        string `json:"by" doc:"The name of the person, as given in the request."`
	Reason    string `json:"reason" doc:"The reason, for people; the text may change."`
	User      string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// PlannedCommand describes one command of a run's plan.
type PlannedCommand struct {
	CommandID     string `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Proxies       int    `json:"proxy_count" doc:"The number of proxies."`
	EstimateCents int64  `json:"estimate_cents" doc:"The expected cost, without proxies of unknown price."`
	UnknownPrice  int    `json:"unknown_price,omitempty" doc:"'unknown_price' counts the proxies of the command whose price is unknown."`
	// ListPriceCents is the list price of the proxies of unknown price. It is set only if it
	// counts against a money limit.
	ListPriceCents int64 `json:"list_price_cents,omitempty" doc:"The list price of the proxies of unknown price, if it counts against a limit."`
	// PricesCents adds up to EstimateCents.
	PricesCents []int64 `json:"prices_cents,omitempty" doc:"The expected cost of each proxy, in the order of the command's 'proxy_ids'. It is omitted if all cost the same, or if a price is unknown."`
}

// SweepLeft describes the due proxies that one plan of a run could not include.
type SweepLeft struct {
	Proxies        int        `json:"proxy_count" doc:"The number of proxies."`
	Unpriced       int        `json:"unpriced,omitempty" doc:"'unpriced' counts the proxies that wait for the first proxy of their kind to show the price."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first living one of these proxies expires; the run must reach it before then."`
}

// ListingShrunk records that a complete listing lacked a large share of the live proxies, or
// that their entries could not be read. A missing proxy is not necessarily gone. It stays
// due and is included in warnings, but is read before it is paid for.
type ListingShrunk struct {
	accountFact
	Known     int      `json:"known" doc:"Living proxies before the listing, without retired ones."`
	NotListed int      `json:"not_listed" doc:"How many of 'known' the listing lacks."`
	ProxyIDs  []string `json:"proxy_ids" doc:"'proxy_ids' lists some of the missing proxies; empty if their entries cannot be read."`
}

// ListingUncovered records how many live proxies no schedule renews, according to two complete
// listings. These proxies expire unless a command renews them. The fact is published when the
// first such proxies appear, and with 0 when none are left. A change of the number, or the expiry
// of the first proxy, is published at most once a day.
type ListingUncovered struct {
	accountFact
	Uncovered      int        `json:"uncovered" doc:"How many living proxies no schedule renews, because they are in none or have no known expiry; 0 when there are none any more."`
	ProxyIDs       []string   `json:"proxy_ids" doc:"'proxy_ids' lists at most 20 of these proxies, nearest expiry first."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first of these proxies expires."`
}

// SweepFailed records that a scheduled run failed, for example because the proxies could not be
// listed. It also records that the commands of a run were refused as invalid. The run is retried.
// Its success is recorded by sweep.planned.
type SweepFailed struct {
	accountFact
	Schedule       string     `json:"schedule" doc:"The name of the schedule."`
	Slot           time.Time  `json:"slot" doc:"The scheduled time."`
	Reason         string     `json:"reason" doc:"The reason, for people; the text may change."`
	Due            int        `json:"due" doc:"'due' counts the due, living proxies of the schedule, as last listed. 'expiring' counts those of them that expire before 'next_slot'."`
	Expiring       int        `json:"expiring" doc:"How many of the due proxies expire before the next scheduled time."`
	NextSlot       *time.Time `json:"next_slot,omitempty" doc:"The next scheduled time."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"When the first of the due proxies expires."`
}

// ScheduleConfigured records that a schedule is new, or that its name, cron expression or time
// zone has changed. Scheduled times before Since do not run. Scheduled times after Since are
// caught up if they were missed.
type ScheduleConfigured struct {
	accountFact
	Schedule string    `json:"schedule" doc:"The name of the schedule."`
	Cron     string    `json:"cron" doc:"The cron expression."`
	Timezone string    `json:"timezone" doc:"The time zone of the days and scheduled times."`
	Since    time.Time `json:"since" doc:"When the schedule's times begin to count."`
	Was      string    `json:"was,omitempty" doc:"'was' is the schedule's earlier name. The spending, the plan that needs approval and the pause of that name belong to this schedule."`
}

// SchedulePaused records that a schedule does not run at its scheduled times until it is
// resumed. Commands that were planned before are still published, and an operator can still
// start a run.
type SchedulePaused struct {
	accountFact
	Schedule string     `json:"schedule" doc:"The name of the schedule."`
	Until    *time.Time `json:"until,omitempty" doc:"'until' is when the pause ends automatically; null if only a person resumes the schedule."`
	By       string     `json:"by" doc:"The name of the person, as given in the request."`
	Reason   string     `json:"reason" doc:"The reason, for people; the text may change."`
	User     string     `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// ScheduleResumed records that a schedule runs at its scheduled times again. One run replaces all
// runs that were skipped during the pause. If By is empty, the pause ended at the time set for
// its end.
type ScheduleResumed struct {
	accountFact
	Schedule string `json:"schedule" doc:"The name of the schedule."`
	By       string `json:"by,omitempty" doc:"The name of the person, as given in the request."`
	Reason   string `json:"reason" doc:"The reason, for people; the text may change."`
	User     string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// ProxyRetired records that schedules no longer renew the proxy. The proxy stays listed
// until it expires, and an operator's command can still renew it.
type ProxyRetired struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
	User    string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// ProxyReinstated records that schedules renew the proxy again. From this fact on, renewals
// that end without renewing the proxy are counted anew.
type ProxyReinstated struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
	User    string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// ProxyReplaced records that the provider would not renew the proxy, and that its schedule
// orders a replacement. The fact does not say that the replacement was bought.
type ProxyReplaced struct {
	ProxyID       string          `json:"proxy_id" doc:"The provider's id of the proxy."`
	Schedule      string          `json:"schedule" doc:"The name of the schedule."`
	Reason        string          `json:"reason" doc:"The reason, for people; the text may change."`
	ExpiresAt     time.Time       `json:"expires_at" doc:"When the proxy expires."`
	CommandID     string          `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Command       json.RawMessage `json:"command" doc:"The command, as published."`
	MaxTotalCents int64           `json:"max_total_cents" doc:"'max_total_cents' is the limit of the order."`
}

// ProxyReview records that several renewals of the proxy ended without renewing it. Schedules
// skip the proxy until it is reviewed. OperationID is the last of these renewals. The review
// stays in v_reviews until the proxy is retired, reinstated or renewed.
type ProxyReview struct {
	Ref
	ProxyID   string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	Schedule  string    `json:"schedule" doc:"The name of the schedule."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the proxy expires."`
	Endings   int       `json:"endings_without_renewal" doc:"How many renewals in a row did not renew the proxy."`
	Reason    string    `json:"reason" doc:"The reason, for people; the text may change."`
}
