// Prices for orders and renewals, and checks of the balance.

package sandbox

// unitPrice returns the price of one proxy for the base duration, in cents. The price
// depends on the quantity and the duration of the order. If both are 0, it is the listed
// price. The account's own price has precedence.
func (sp *space) unitPrice(offer *FixtureOffer, quantity, days int64) int64 {
	if cents, ok := sp.prices[offer.OfferCode]; ok {
		return cents
	}
	cents, reached := offer.UnitPriceCents, int64(0)
	for from, price := range offer.QuantityPrices {
		if from <= quantity && from > reached {
			cents, reached = price, from
		}
	}
	if price, ok := offer.DurationPrices[days]; ok {
		cents = min(cents, price)
	}
	return cents
}

func (sp *space) price(offer *FixtureOffer, quantity, days int64) int64 {
	return (sp.unitPrice(offer, quantity, days)*quantity*days + offer.BaseDurationDays - 1) / offer.BaseDurationDays
}

type priceSetting struct {
	AccountID      string `json:"account_id"`
	OfferCode      string `json:"offer_code"`
	UnitPriceCents int64  `json:"unit_price_cents"`
}

// setPrice sets an account's own price for an offer (extension). The price applies immediately.
func (s *controls) setPrice(in *priceSetting) error {
	sp, err := s.st.account(in.AccountID, envSandbox)
	switch {
	case err != nil:
		return err
	case s.st.byCode[in.OfferCode] == nil:
		return invalid("offer_code", "%q is unknown", in.OfferCode)
	case in.UnitPriceCents <= 0 || in.UnitPriceCents > maxUnitPriceCents:
		return invalid("unit_price_cents", "must be 1 to %d", int64(maxUnitPriceCents))
	}
	return s.persist("price", in.AccountID+"/"+in.OfferCode, in.UnitPriceCents, func() { sp.prices[in.OfferCode] = in.UnitPriceCents })
}

// affords returns a refusal if a charge is larger than the balance without the frozen part
// (assumed).
func (sp *space) affords(cents int64) *refusal {
	if sp.balance-sp.frozen < cents {
		return refuse("insufficient_wallet_balance", "The wallet is too low.")
	}
	return nil
}

// statusActive is the status of an account that may buy. An account with another status may
// only read (assumed).
const statusActive = "active"

type accountSetting struct {
	AccountID string `json:"account_id"`
	Status    string `json:"status"`
}

// setAccount changes the status of an account (extension).
func (s *controls) setAccount(in *accountSetting) error {
	sp, err := s.st.account(in.AccountID, envSandbox)
	if err != nil {
		return err
	}
	if !printable(in.Status, maxHeaderText) {
		return invalid("status", "is missing, or is not printable ASCII")
	}
	return s.persist("account", in.AccountID, in.Status, func() { *sp.status = in.Status })
}
