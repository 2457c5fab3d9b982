// What verbs take and answer, where no other package has the type.

package verbs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// OperatorRequest is an operator's change of one command or operation. ID is of either,
// and one of the other two says of which: commands of before may have an operation's id.
type OperatorRequest struct {
	ID          string `json:"id,omitempty"`
	CommandID   string `json:"command_id,omitempty"`
	OperationID string `json:"operation_id,omitempty"`

	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Check refuses a request of several ids.
func (q OperatorRequest) Check() error {
	if named := []string{q.ID, q.CommandID, q.OperationID}; len(slices.DeleteFunc(named, func(id string) bool { return id == "" })) > 1 {
		return errors.New("say one of id, command_id and operation_id")
	}
	return nil
}

// RetryRequest asks again for what ended with nothing charged.
type RetryRequest struct {
	OperatorRequest

	// UnlessRepeated refuses what was cancelled, what was asked again before, and a renewal
	// whose proxy a later command renews.
	UnlessRepeated bool `json:"unless_repeated,omitempty"`
}

// Named is the request of an id that is of what as says.
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

// Of is the id that the request names, and what it is of.
func (q OperatorRequest) Of() (id string, as inspect.As) {
	switch {
	case q.CommandID != "":
		return q.CommandID, inspect.AsCommand
	case q.OperationID != "":
		return q.OperationID, inspect.AsOperation
	}
	return q.ID, ""
}

// ListRequest asks for operations. Without All it is for those that have not ended.
type ListRequest struct {
	All    bool              `json:"all"`
	Limit  int               `json:"limit"`
	State  string            `json:"state,omitempty"`
	Kind   string            `json:"kind,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Since  time.Time         `json:"since,omitzero"`
}

// Check refuses a limit that would be read as none.
func (q ListRequest) Check() error { return notNegative("limit", q.Limit) }

// notNegative refuses a number that would otherwise be read as if it were left out.
func notNegative(field string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s is %d and must be 0 or more", field, n)
	}
	return nil
}

// MaxListed is how many operations one request may list.
const MaxListed = 10_000

// StatesRequest asks where commands stand. Hashes, beside the ids, asks for the
// state of that content; Messages, the hashes of the messages as they were published,
// also finds what the intake refused as it read it (jobs.StateOf).
type StatesRequest struct {
	IDs      []string `json:"ids"`
	Hashes   []string `json:"hashes,omitempty"`
	Messages []string `json:"messages,omitempty"`
}

// RecordAnswer is a record as it is booked.
type RecordAnswer struct {
	Seq   int64  `json:"seq"`  // its row of the journal, by which it is taken back
	Kind  string `json:"kind"` // top-up, external, charge or refund
	Cents int64  `json:"cents"`
}

// Changed is the answer to a verb that changes something: how much it changed.
type Changed struct {
	Changed  int    `json:"changed"`
	Currency string `json:"currency,omitempty"` // of a record, or of the wallet
	Warning  string `json:"warning,omitempty"`  // of a record that was booked all the same
	// Record is what was recorded, now or before under the same id.
	Record *RecordAnswer `json:"record,omitempty"`
	// WalletCents is the wallet of the book after an answer to a review.
	WalletCents *int64 `json:"wallet_cents,omitempty"`
}

// MaxStates is how many commands one request may ask about.
const MaxStates = 1000

// AccountView is the account as `account show` prints it.
type AccountView struct {
	Account     string `json:"account"`
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	BaseURL     string `json:"base_url"`
	AppID       string `json:"app_id"`
	Currency    string `json:"currency"`
	// Status, Email and CreatedAt are the provider's, as the start read them.
	Status       string         `json:"status"`
	Email        string         `json:"email"`
	CreatedAt    *time.Time     `json:"created_at"`
	NotReady     string         `json:"not_ready,omitempty"`
	ShortOfMoney bool           `json:"short_of_money"`
	Paused       []ledger.Pause `json:"paused"`
	Published    uint64         `json:"published_seq"`
	Head         ledger.Head    `json:"head"`
	// Reconciled is the last comparison with the provider of this run.
	Reconciled jobs.LastReconciliation `json:"reconciled"`
	// Provider is how the provider answered this runner in the last minutes.
	Provider jobs.ProviderRecent `json:"provider"`
}

// DeadRequest names a dead letter by its sequence.
type DeadRequest struct {
	Seq    uint64 `json:"seq"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// ProxiesRequest asks for the proxies behind one of them, in the order of their ids.
type ProxiesRequest struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // default and most 1,000
}

// Check refuses a limit that would be read as none.
func (q ProxiesRequest) Check() error { return notNegative("limit", q.Limit) }

// ProxiesAnswer is one page.
type ProxiesAnswer struct {
	Proxies []ListedProxy `json:"proxies"`
	// Next is where the page behind it begins; left out on the last one.
	Next string `json:"next,omitempty"`
}

// ListedProxy is a proxy without what is known to be out of date: the expiry of before its
// last renewal is no expiry.
type ListedProxy struct {
	ledger.Proxy

	SeenAt *time.Time `json:"seen_at"` // nil: not since its last renewal
	// ExpiredBeforeRenewalAt is the expiry that a renewal which no read has shown yet began
	// from.
	ExpiredBeforeRenewalAt *time.Time `json:"expired_before_renewal_at,omitempty"`
}

// Listed is a proxy as the ledger has it, without what is out of date.
func Listed(p ledger.Proxy) ListedProxy {
	if !p.Unread() {
		return ListedProxy{Proxy: p, SeenAt: &p.SeenAt}
	}
	before := p.ExpiresAt
	p.ExpiresAt = nil
	return ListedProxy{Proxy: p, ExpiredBeforeRenewalAt: before}
}

// RetireRequest takes proxies out of every sweep, or back in.
type RetireRequest struct {
	ProxyIDs []string `json:"proxy_ids"`
	By       string   `json:"by"`
	Reason   string   `json:"reason"`
	Undo     bool     `json:"undo,omitempty"`
}

// MaxRetired bounds the proxies of one request.
const MaxRetired = 1000

// RevealRequest notes that a person reads a proxy's credentials.
type RevealRequest struct {
	ProxyID string `json:"proxy_id"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

// WaitRequest asks what a command came to, and waits for it. Without a time the answer
// comes at once.
type WaitRequest struct {
	ID             string `json:"id"`
	TimeoutSeconds int64  `json:"timeout_seconds,omitempty"` // at most an hour
}

// WaitAnswer is the data of the command's last command.finished, once it is over.
type WaitAnswer struct {
	Finished bool                  `json:"finished"`
	Result   *fact.CommandFinished `json:"result,omitempty"`
}

// LinesRequest asks for the lines of a command behind the first so many.
type LinesRequest struct {
	ID    string `json:"id"`
	After int    `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // default and most 1,000
}

// Check refuses numbers that would be read as none.
func (q LinesRequest) Check() error {
	return errors.Join(notNegative("after", q.After), notNegative("limit", q.Limit))
}

// SweepRequest names a schedule, or a plan.
type SweepRequest struct {
	Schedule string `json:"schedule,omitempty"`
	Plan     string `json:"plan,omitempty"`
	By       string `json:"by,omitempty"` // of a sweep or an approval, as Reason
	Reason   string `json:"reason,omitempty"`
}

// SchedulePauseRequest pauses a schedule, or resumes it.
type SchedulePauseRequest struct {
	Schedule string     `json:"schedule"`
	Until    *time.Time `json:"until,omitempty"` // of a pause: when it ends by itself
	By       string     `json:"by,omitempty"`
	Reason   string     `json:"reason,omitempty"`
}

// ForecastRequest asks for some days of one schedule, or of all.
type ForecastRequest struct {
	Schedule string `json:"schedule,omitempty"`
	Days     int    `json:"days"`
}
