package verbs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
)

// OperatorRequest is a request about a command, about an operation, or about the account. A
// request sets at most one of the three ids. CommandID identifies a command, and OperationID
// identifies an operation. ID identifies either of them; older clients set it.
type OperatorRequest struct {
	ID          string `json:"id,omitempty" doc:"The id of the command, chosen by its producer. The same id with the same content is always the same command."`
	CommandID   string `json:"command_id,omitempty" doc:"The id of the command, chosen by its producer."`
	OperationID string `json:"operation_id,omitempty" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`

	By     string `json:"by" doc:"The name of the person, as given in the request."`
	Reason string `json:"reason" doc:"The reason, for people; the text may change."`
}

// Check refuses a request that sets more than one id.
func (q OperatorRequest) Check() error {
	if named := []string{q.ID, q.CommandID, q.OperationID}; len(slices.DeleteFunc(named, func(id string) bool { return id == "" })) > 1 {
		return errors.New("say one of id, command_id and operation_id")
	}
	return nil
}

// RetryRequest retries a command or operation that failed without a charge.
type RetryRequest struct {
	OperatorRequest

	UnlessRepeated bool `json:"unless_repeated,omitempty" doc:"'unless_repeated' refuses to retry commands that were cancelled, that were retried before, or whose proxy a later command renews."`
}

// ResumeRequest resumes an account.
type ResumeRequest struct {
	OperatorRequest

	ReviewLost bool `json:"review_lost,omitempty" doc:"After a restore: orders of the next 24 hours, and renewals of proxies that may have been renewed in the lost time, are not sent and need review."`
}

// Named returns the request with an id of the given kind.
func (q OperatorRequest) Named(id string, as inspect.As) OperatorRequest {
	switch as {
	case inspect.AsCommand:
		q.CommandID = id
	case inspect.AsOperation:
		q.OperationID = id
	default:
		q.ID = id
	}
	return q
}

// Of returns the request's id and its kind. The kind is "" if the id may belong to a command or
// to an operation.
func (q OperatorRequest) Of() (id string, as inspect.As) {
	switch {
	case q.CommandID != "":
		return q.CommandID, inspect.AsCommand
	case q.OperationID != "":
		return q.OperationID, inspect.AsOperation
	}
	return q.ID, ""
}

// ListRequest asks for operations. Unless All is set, it asks for operations that have not
// ended.
type ListRequest struct {
	All    bool              `json:"all" doc:"Also list operations that have ended."`
	Limit  int               `json:"limit" doc:"The most operations to list."`
	State  string            `json:"state,omitempty" doc:"The state."`
	Kind   string            `json:"kind,omitempty" doc:"The kind of the command."`
	Labels map[string]string `json:"labels,omitempty" doc:"The labels of the command, as given by its producer."`
	Since  time.Time         `json:"since,omitzero" doc:"List only operations accepted since this time."`
}

// Check refuses a negative limit.
func (q ListRequest) Check() error { return notNegative("limit", q.Limit) }

func notNegative(field string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s is %d and must be 0 or more", field, n)
	}
	return nil
}

// MaxListed limits the operations of one list request.
const MaxListed = 10_000

// StatesRequest asks for the states of commands. Hashes and Messages are empty or have one entry
// for each id. Hashes contains content hashes, and the response is then about exactly that
// content. Messages contains hashes of the published messages. The response then also covers
// content that the intake could not parse (inspect.StateOf).
type StatesRequest struct {
	IDs      []string `json:"ids" doc:"The ids of the commands."`
	Hashes   []string `json:"hashes,omitempty" doc:"The content hash of each command. With it, the answer is about exactly that content."`
	Messages []string `json:"messages,omitempty" doc:"The SHA-256 of each message as published. It finds messages that could not be read."`
}

// RecordAnswer is what was booked for a record of money.
type RecordAnswer struct {
	Seq   int64  `json:"seq" doc:"The journal row of the record; use it to reverse the record."`
	Kind  string `json:"kind" doc:"top-up, external, charge or refund."`
	Cents int64  `json:"cents" doc:"The amount, above 0."`
	// Account is empty unless the record reverses another record.
	Account string `json:"account,omitempty" doc:"'account' is the account of the books to which a reversal is booked: a top-up in external reverses spending, and spending in funding reverses a top-up."`
}

// Changed is the response to a service request that changes something. It says how much was
// changed.
type Changed struct {
	Changed     int           `json:"changed" doc:"How many things were changed; 0 if nothing had to change."`
	Currency    string        `json:"currency,omitempty" doc:"The currency of the record, or of the wallet."`
	Warning     string        `json:"warning,omitempty" doc:"Why nothing was changed, or a warning."`
	Record      *RecordAnswer `json:"record,omitempty" doc:"'record' is what was recorded under this id, now or earlier."`
	WalletCents *int64        `json:"wallet_cents,omitempty" doc:"'wallet_cents' is the ledger balance after an answer to a review or a record."`
}

// MaxStates limits the commands of one states request.
const MaxStates = 1000

// AccountView is the account as `accounts show` prints it.
type AccountView struct {
	Account      string                  `json:"account" doc:"The short name of the account."`
	AccountID    string                  `json:"account_id" doc:"The provider's id of the account."`
	Environment  string                  `json:"environment" doc:"The provider's environment."`
	BaseURL      string                  `json:"base_url" doc:"The provider's address."`
	AppID        string                  `json:"app_id" doc:"The App ID of the API key that signed the request, without its secret."`
	Currency     string                  `json:"currency" doc:"The account's currency, an ISO 4217 code."`
	Status       string                  `json:"status" doc:"'status', 'email' and 'created_at' come from the provider, as read at the start."`
	Email        string                  `json:"email" doc:"The e-mail address of the account's owner, as the provider says."`
	CreatedAt    *time.Time              `json:"created_at" doc:"When the account was created, as the provider says."`
	NotReady     string                  `json:"not_ready,omitempty" doc:"Why the account does not work yet."`
	ShortOfMoney bool                    `json:"short_of_money" doc:"Whether an order or renewal was refused because the wallet holds too little."`
	Paused       []tables.Pause          `json:"paused"`
	Published    uint64                  `json:"published_seq" doc:"The last row on the events stream."`
	Head         chain.Head              `json:"head"`
	Reconciled   jobs.LastReconciliation `json:"reconciled" doc:"'reconciled' is the last reconciliation since this runner started."`
	Provider     jobs.ProviderRecent     `json:"provider" doc:"'provider' says how the provider has replied to this runner in the last minutes."`
}

// DeadRequest identifies a dead letter by its sequence.
type DeadRequest struct {
	Seq    uint64 `json:"seq" doc:"The sequence of the dead letter."`
	By     string `json:"by" doc:"The name of the person, as given in the request."`
	Reason string `json:"reason" doc:"The reason, for people; the text may change."`
	// If ContentHash is set, the caller publishes the corrected command itself, because only
	// the caller may have the permission to publish. The service request then only records the
	// hash, and the caller also removes the dead letter.
	ContentHash string `json:"content_hash,omitempty" doc:"For a corrected command, which the caller publishes itself: the SHA-256 in hex of its content, to be recorded."`
}

// ProxiesRequest asks for the proxies whose ids follow After, in the order of their ids.
type ProxiesRequest struct {
	After string `json:"after,omitempty" doc:"The id of the last proxy on the previous page."`
	Limit int    `json:"limit,omitempty" doc:"The most proxies to return; default and maximum 1,000."`
}

// Check refuses a negative limit.
func (q ProxiesRequest) Check() error { return notNegative("limit", q.Limit) }

// ProxiesAnswer is one page of proxies.
type ProxiesAnswer struct {
	Proxies []ListedProxy `json:"proxies" doc:"The proxies, by id."`
	Next    string        `json:"next,omitempty" doc:"'next' is where the next page begins; omitted on the last page."`
}

// ProxyRequest identifies a proxy.
type ProxyRequest struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
}

// MostRenewals limits the renewals in a ProxyAnswer.
const MostRenewals = 10

// ProxyAnswer is what the ledger knows about one proxy.
type ProxyAnswer struct {
	Proxy    *ListedProxy             `json:"proxy,omitempty" doc:"The proxy as last read; omitted if no listing has shown it."`
	Outlook  schedules.RenewalOutlook `json:"outlook" doc:"Whether the proxy will be renewed, and if not, why."`
	BoughtBy string                   `json:"bought_by,omitempty" doc:"The operation whose order delivered the proxy, if known."`
	Renewals []tables.ProxyRenewal    `json:"renewals" doc:"The ten latest renewals, latest first."`
	Currency string                   `json:"currency,omitempty" doc:"The currency of the amounts."`
}

// ListedProxy is a proxy without outdated values. For example, it omits an expiry that was read
// before the proxy's last renewal.
type ListedProxy struct {
	tables.Proxy

	SeenAt                 *time.Time `json:"seen_at" doc:"When the proxy was last read; null if it was not read since its last renewal."`
	ExpiredBeforeRenewalAt *time.Time `json:"expired_before_renewal_at,omitempty" doc:"'expired_before_renewal_at' is the expiry before the last renewal, if no read has shown the new expiry yet."`
}

// Listed converts a proxy of the ledger and omits outdated values.
func Listed(p tables.Proxy) ListedProxy {
	if !p.Unread() {
		return ListedProxy{Proxy: p, SeenAt: &p.SeenAt}
	}
	before := p.ExpiresAt
	p.ExpiresAt = nil
	return ListedProxy{Proxy: p, ExpiredBeforeRenewalAt: before}
}

// RetireRequest retires proxies, so that no schedule renews them. With Undo, it returns the
// proxies to their schedules.
type RetireRequest struct {
	ProxyIDs []string `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	By       string   `json:"by" doc:"The name of the person, as given in the request."`
	Reason   string   `json:"reason" doc:"The reason, for people; the text may change."`
	Undo     bool     `json:"undo,omitempty" doc:"Return the proxies to their schedules."`
}

// MaxRetired limits the proxies of one request.
const MaxRetired = 1000

// RevealRequest records that a person reads a proxy's credentials.
type RevealRequest struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
}

// WaitRequest asks how a command ended, and waits until it has ended. If TimeoutSeconds is 0,
// the response comes immediately.
type WaitRequest struct {
	ID             string `json:"id" doc:"The id of the command, chosen by its producer. The same id with the same content is always the same command."`
	TimeoutSeconds int64  `json:"timeout_seconds,omitempty" doc:"How long to wait, at most an hour."`
}

// WaitAnswer says whether the command has ended. If it has, Result is the data of its latest
// command.finished event.
type WaitAnswer struct {
	Finished bool                  `json:"finished" doc:"Whether the command has ended."`
	Result   *fact.CommandFinished `json:"result,omitempty"`
}

// LinesRequest asks for the result lines of a command. It skips as many lines as After says.
type LinesRequest struct {
	ID    string `json:"id" doc:"The id of the command, chosen by its producer. The same id with the same content is always the same command."`
	After int    `json:"after,omitempty" doc:"The number of lines that were read before."`
	Limit int    `json:"limit,omitempty" doc:"The most lines to return; default and maximum 1,000."`
}

// Check refuses negative numbers.
func (q LinesRequest) Check() error {
	return errors.Join(notNegative("after", q.After), notNegative("limit", q.Limit))
}

// SummaryRequest asks for the summary of an account.
type SummaryRequest struct {
	NeedsOnly bool `json:"needs_only,omitempty" doc:"Omit the parts that take long: 'expiring' and 'runway'."`
}

// Summary is the summary of an account. Unknown values are null.
type Summary struct {
	Account       string         `json:"account" doc:"The short name of the account."`
	Ready         bool           `json:"ready" doc:"Whether the account works: the runner carries out commands, or is a standby."`
	Role          string         `json:"role,omitempty" doc:"active (the leader) or standby; omitted if no runner answers."`
	NotReady      string         `json:"not_ready,omitempty" doc:"Why the account does not work, one line per reason."`
	ConfigChanged string         `json:"config_changed,omitempty" doc:"Whether the configuration file has changed since the runner read it."`
	Paused        []tables.Pause `json:"paused" doc:"What is paused, and why."`
	Needs         Needs          `json:"needs" doc:"What needs an operator."`
	Schedules     *int64         `json:"schedules,omitempty" doc:"How many schedules are configured; omitted if no runner answers."`
	Expiring      *Expiring      `json:"expiring" doc:"Proxies by their expiry; null before the first complete listing."`
	Runway        *Runway        `json:"runway" doc:"How long the wallet lasts; null if not known."`
	Books         Books          `json:"books" doc:"The balances by the ledger, and the last comparison with the provider."`
}

// Needs counts what needs an operator. An unknown count is null, and Total does not include it.
type Needs struct {
	Total           int64  `json:"total" doc:"The sum of the other numbers."`
	Reviews         int64  `json:"reviews" doc:"Operations with an unknown outcome."`
	Held            int64  `json:"held" doc:"Operations on hold, until an operator releases them or a day has room for them."`
	Plans           *int64 `json:"plans" doc:"Plans that need approval."`
	DeadLetters     *int64 `json:"dead_letters" doc:"Messages that could not be read as commands."`
	Refused         int64  `json:"refused,omitempty" doc:"Commands that were refused on arrival within the last 24 hours."`
	Paused          int64  `json:"paused" doc:"Pauses of the account without an end."`
	PausedSchedules *int64 `json:"paused_schedules" doc:"Schedules that are paused."`
	Failing         *int64 `json:"failing_schedules" doc:"Schedules whose run fails, or whose match selects no proxy."`
	OverLimit       *int64 `json:"over_limit,omitempty" doc:"Due proxies that the last runs skipped because of a budget, the account's limit or the wallet."`
	OverLimitOf     string `json:"over_limit_schedule,omitempty" doc:"The schedule that skipped them, if it is only one."`
	Late            *int64 `json:"late,omitempty" doc:"Proxies that expire within a day although a schedule should have renewed them, and no other count says why."`
	LateFirst       string `json:"late_first,omitempty" doc:"The first of 'late' to expire."`
	Uncovered       *int64 `json:"uncovered" doc:"Living proxies that no schedule matches, or whose expiry is not known, by the last listing."`
	Findings        *int64 `json:"findings" doc:"Differences between the books and the provider."`
}

// PageRefused is the Page of refused commands, which the web UI lists one by one.
const PageRefused = "refused"

// PageLate is the Page of proxies that expire soon and were not renewed.
const PageLate = "late"

// PageSkipped is the Page of skipped proxies. The web UI lists the schedules that skipped them.
const PageSkipped = "skipped"

// RefusedFor is how long a refused command is listed as needing an operator.
const RefusedFor = 24 * time.Hour

// Need is one count of Needs that is not 0.
type Need struct {
	Count     int64
	One, More string // noun for the counted things, singular and plural
	Command   string // CLI command that shows them
	Page      string // page of the web UI that shows them, perhaps with a parameter
}

// Text returns the count with its noun.
func (n Need) Text() string { return english.Plural(int(n.Count), n.One, n.More) }

// WithSchedules returns the counts, increased by what the schedules need.
func (n Needs) WithSchedules(all []schedules.Status) Needs {
	var held, paused, failing, skipped int64
	var skippedBy []string
	for _, one := range all {
		if one.StillOverLimit > 0 {
			skipped += int64(one.StillOverLimit)
			skippedBy = append(skippedBy, one.Schedule)
		}
		switch {
		case one.Plan != "":
			held++
		case one.Paused != nil:
			paused++
		case one.Problem != "" || one.MatchesNone != "":
			failing++
		}
	}
	n.Plans, n.PausedSchedules, n.Failing, n.OverLimit = &held, &paused, &failing, &skipped
	if n.OverLimitOf = ""; len(skippedBy) == 1 {
		n.OverLimitOf = skippedBy[0]
	}
	return n
}

// Parts returns the counts that are known and not 0.
func (n Needs) Parts() (parts []Need) {
	skippedBy := "schedules list"
	if n.OverLimitOf != "" {
		skippedBy = "schedules history " + n.OverLimitOf + " --skipped"
	}
	late := Need{One: "proxy that expires soon and was not renewed", More: "proxies that expire soon and were not renewed", Command: "proxies list --within 1d", Page: PageLate}
	if n.Late != nil && *n.Late == 1 && n.LateFirst != "" {
		late.Command = "proxies get " + n.LateFirst
	}
	for _, p := range []struct {
		count *int64
		Need
	}{
		{&n.Reviews, Need{One: "review", More: "reviews", Command: "reviews list", Page: "reviews"}},
		{&n.Held, Need{One: "operation on hold", More: "operations on hold", Command: "operations list --state held", Page: "operations"}},
		{n.Plans, Need{One: "plan to approve", More: "plans to approve", Command: "schedules list", Page: "schedules"}},
		{n.DeadLetters, Need{One: "dead letter", More: "dead letters", Command: "dead-letters list", Page: "dead"}},
		{&n.Refused, Need{One: "command refused as invalid within 24 h", More: "commands refused as invalid within 24 h", Command: "operations list --state rejected --since 1d", Page: PageRefused}},
		{&n.Paused, Need{One: "pause of the account", More: "pauses of the account", Command: "accounts show", Page: "operations"}},
		{n.PausedSchedules, Need{One: "paused schedule", More: "paused schedules", Command: "schedules list", Page: "schedules"}},
		{n.Failing, Need{One: "schedule that renews nothing", More: "schedules that renew nothing", Command: "schedules list", Page: "schedules"}},
		{n.OverLimit, Need{One: "proxy skipped for a budget or the wallet", More: "proxies skipped for a budget or the wallet", Command: skippedBy, Page: PageSkipped}},
		{n.Late, late},
		{n.Uncovered, Need{One: "proxy that no schedule renews", More: "proxies that no schedule renews", Command: "proxies list --uncovered", Page: "proxies"}},
		{n.Findings, Need{One: "difference from the provider", More: "differences from the provider", Command: "ledger reconcile", Page: "money"}},
	} {
		if p.count != nil && *p.count > 0 {
			p.Count = *p.count
			parts = append(parts, p.Need)
		}
	}
	return parts
}

// Sum returns the sum of the known counts.
func (n Needs) Sum() (total int64) {
	for _, p := range n.Parts() {
		total += p.Count
	}
	return total
}

// Expiring counts the listed proxies by expiry. Day, ThreeDays, Week and All each include the
// previous count. Expired is separate.
type Expiring struct {
	Expired    int64     `json:"expired" doc:"Proxies that have expired and are still listed."`
	Day        int64     `json:"day" doc:"Proxies that expire within 24 hours."`
	ThreeDays  int64     `json:"three_days" doc:"Proxies that expire within 72 hours."`
	Week       int64     `json:"week" doc:"Proxies that expire within 7 days."`
	All        int64     `json:"all" doc:"All living proxies that have an expiry."`
	Unreadable int64     `json:"unreadable,omitempty" doc:"Entries of the last listing that cannot be read. No schedule renews them, and the other counts may lack them."`
	ListedAt   time.Time `json:"listed_at" doc:"When the last complete listing ended."`
}

// Runway is how long the wallet lasts.
type Runway struct {
	Days      int    `json:"days" doc:"How many whole days the wallet pays for."`
	More      bool   `json:"more,omitempty" doc:"Whether the wallet pays for all days of the forecast, and perhaps for more."`
	RunsOutOn string `json:"runs_out_on,omitempty" doc:"The first day that the wallet does not pay for."`
	Basis     string `json:"basis" doc:"forecast: by the schedules' renewals; spending: by the spending of the last 7 days."`
	Unpriced  int    `json:"unpriced,omitempty" doc:"Renewals of the forecast whose price is unknown."`
}

// Books is the money of an account according to its ledger.
type Books struct {
	Currency      string     `json:"currency" doc:"The currency of the amounts."`
	WalletCents   int64      `json:"wallet_cents" doc:"The ledger balance."`
	SuspenseCents int64      `json:"suspense_cents" doc:"The part of the balance that may have been charged."`
	ComparedAt    *time.Time `json:"compared_at" doc:"When the last comparison with the provider ended; null before the first."`
	Agree         *bool      `json:"agree" doc:"Whether books and provider agreed then; null if unknown."`
	ChangedSince  bool       `json:"changed_since,omitempty" doc:"Whether money was booked after that comparison."`
}

// SweepRequest identifies a schedule or a plan.
type SweepRequest struct {
	Schedule string `json:"schedule,omitempty" doc:"The name of the schedule."`
	Plan     string `json:"plan,omitempty" doc:"The hash of the plan."`
	By       string `json:"by,omitempty" doc:"The name of the person who asks for the run or approves the plan; 'reason' is the person's reason."`
	Reason   string `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	// After is zero if the schedule has never run.
	After *time.Time `json:"after,omitempty" doc:"'after' is the scheduled time of the schedule's last run, or year 1 if there is none: the run is refused if another was made since. If it is omitted, that is not checked."`
}

// SchedulePauseRequest pauses or resumes a schedule.
type SchedulePauseRequest struct {
	Schedule string     `json:"schedule" doc:"The name of the schedule."`
	Until    *time.Time `json:"until,omitempty" doc:"When the pause ends automatically."`
	By       string     `json:"by,omitempty" doc:"The name of the person, as given in the request."`
	Reason   string     `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
}

// ForecastRequest asks for the forecast of one schedule, or of all schedules.
type ForecastRequest struct {
	Schedule string `json:"schedule,omitempty" doc:"The name of the schedule."`
	Days     int    `json:"days" doc:"How many days to forecast, from today."`
}
