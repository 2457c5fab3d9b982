// This file has Binding, the provider account that a ledger belongs to.

package fact

// Binding is the provider account that a ledger belongs to.
type Binding struct {
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	BaseURL     string `json:"base_url"`
	Currency    string `json:"currency"`
	Epoch       string `json:"epoch"`
}
