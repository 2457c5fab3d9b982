// The account and wallet endpoints.

package upstream

import (
	"context"
	"time"
)

// Account is the account that owns the API key (API: Account). The document gives no field
// types. AccountID holds text or a number, as text.
type Account struct {
	AccountID, Email, Status string
	EmailVerified            bool
	CreatedAt                time.Time
	Received
}

// Account reads the key's account (API: GET /api/v1/account, scope account:read).
func (c *Client) Account(ctx context.Context) (Account, error) {
	return getOne(ctx, c, accountPath, "", func(o *object, e *Envelope) Account {
		o.need("account_id")
		a := Account{AccountID: o.text("account_id"), Email: o.text("email"), Status: o.text("status"), Received: e.received()}
		a.EmailVerified, _ = as[bool](o.raw("email_verified"))
		a.CreatedAt, _ = parseTime(o.text("created_at"))
		return a
	})
}

// Wallet is the account's wallet in the key's environment (API: Wallet).
type Wallet struct {
	Environment  Environment
	Currency     string
	BalanceCents int64
	Balance      string // decimal string, main unit
	FrozenCents  int64  // not interpreted (trap 24)
	CashValue    bool   // false in sandbox
	Received
}

// Wallet reads the wallet (API: GET /api/v1/wallet, scope wallet:read). A wallet
// without environment, currency, balance_cents or cash_value is malformed.
func (c *Client) Wallet(ctx context.Context) (Wallet, error) {
	return getOne(ctx, c, walletPath, "", func(o *object, e *Envelope) Wallet {
		o.need("environment", "currency", "balance_cents", "cash_value")
		return Wallet{Environment: Environment(o.str("environment")), Currency: o.str("currency"), BalanceCents: o.integer("balance_cents"),
			Balance: o.decimal("balance"), FrozenCents: o.integer("frozen_cents"), CashValue: o.boolean("cash_value"), Received: e.received()}
	})
}
