// The account and wallet endpoints.

package upstream

import (
	"context"
	"time"
)

// Account describes the customer account that the API key belongs to (API: Account). The API
// document gives no field types. AccountID is the provider's text or number, as text.
type Account struct {
	AccountID, Email, Status string
	EmailVerified            bool
	CreatedAt                time.Time
	Received
}

// Account requests the account of the API key (API: GET /api/v1/account, scope account:read).
func (c *Client) Account(ctx context.Context) (Account, error) {
	return getOne(ctx, c, accountPath, "", func(o *object, e *Envelope) Account {
		o.need("account_id")
		a := Account{AccountID: o.text("account_id"), Email: o.text("email"), Status: o.text("status"), Received: e.received()}
		a.EmailVerified, _ = as[bool](o.raw("email_verified"))
		a.CreatedAt, _ = parseTime(o.text("created_at"))
		return a
	})
}

// Wallet is the account's wallet in the API key's environment (API: Wallet).
type Wallet struct {
	Environment  Environment
	Currency     string
	BalanceCents int64
	Balance      string // a decimal string in the currency's main unit
	FrozenCents  int64  // not interpreted (trap 24); 0 if absent
	CashValue    bool   // false in the sandbox
	Received
}

// Wallet requests the wallet (API: GET /api/v1/wallet, scope wallet:read). It returns an error
// if the reply lacks environment, currency, balance_cents or cash_value.
func (c *Client) Wallet(ctx context.Context) (Wallet, error) {
	return getOne(ctx, c, walletPath, "", func(o *object, e *Envelope) Wallet {
		o.need("environment", "currency", "balance_cents", "cash_value")
		return Wallet{Environment: Environment(o.str("environment")), Currency: o.str("currency"), BalanceCents: o.integer("balance_cents"),
			Balance: o.decimal("balance"), FrozenCents: o.integer("frozen_cents"), CashValue: o.boolean("cash_value"), Received: e.received()}
	})
}
