// The body of an order, in both forms, and its checks.

package sandbox

import (
	"slices"
	"strconv"
)

// orderBody is an order as asked for; the legacy single-region body becomes one
// line.
type orderBody struct {
	days   int64
	lines  []orderLine
	legacy bool
}

// field is the path of a line's field in the body that was sent.
func (in *orderBody) field(line int, name string) string {
	if in.legacy {
		return name
	}
	return "items." + strconv.Itoa(line) + "." + name
}

// readOrderBody reads either form and checks its shape.
func readOrderBody(body []byte) (orderBody, *refusal) {
	var sent struct {
		DurationDays int64       `json:"duration_days"`
		OfferCode    *string     `json:"offer_code"`
		Quantity     *int64      `json:"quantity"`
		Items        []orderLine `json:"items"`
	}
	no := decodeBody(body, &sent)
	in := orderBody{days: sent.DurationDays, lines: sent.Items}
	switch {
	case no != nil:
		return in, no
	case sent.Items != nil && (sent.OfferCode != nil || sent.Quantity != nil):
		return in, invalid("items", "must not appear together with offer_code or quantity")
	case (sent.OfferCode != nil) != (sent.Quantity != nil):
		missing := map[bool]string{true: "quantity", false: "offer_code"}[sent.OfferCode != nil]
		return in, invalid(missing, "is missing: offer_code and quantity belong together")
	case sent.OfferCode != nil:
		in.lines, in.legacy = []orderLine{{OfferCode: *sent.OfferCode, Quantity: *sent.Quantity}}, true
	case len(in.lines) == 0 || len(in.lines) > maxOrderLines:
		return in, invalid("items", "must have 1 to 50 lines")
	}
	if in.days <= 0 || in.days%30 != 0 {
		return in, invalid("duration_days", "must be a positive multiple of 30")
	}
	return in, nil
}

// orderOf reads an order, and checks it against the offers and the balance.
func (s *Server) orderOf(r *request) (*order, map[string]int64, *refusal) {
	in, no := readOrderBody(r.body)
	if no != nil {
		return nil, nil, no
	}
	quantities, no := s.checkLines(r.env, in)
	if no != nil {
		return nil, nil, no
	}
	o := &order{appID: r.key.appID, key: r.idempotencyKey(), space: r.key.space, days: in.days, lines: in.lines}
	for code, quantity := range quantities {
		o.quantity += quantity
		o.total += o.space.price(s.st.byCode[code], quantity, in.days)
	}
	return o, quantities, o.space.affords(o.total)
}

// checkLines checks price and stock again: an offers listing reserves nothing.
func (s *Server) checkLines(env string, in orderBody) (map[string]int64, *refusal) {
	quantities, sum := map[string]int64{}, int64(0)
	for i, line := range in.lines {
		if line.OfferCode == "" {
			return nil, invalid(in.field(i, "offer_code"), "is missing")
		}
		if line.Quantity <= 0 || line.Quantity > maxOrderQuantity {
			return nil, invalid(in.field(i, "quantity"), "must be 1 to 2000")
		}
		quantities[line.OfferCode] += line.Quantity
		sum += line.Quantity
	}
	if sum > maxOrderQuantity {
		return nil, invalid("items", "the quantities sum to more than 2000")
	}
	for i, line := range in.lines {
		offer := s.st.byCode[line.OfferCode]
		if offer == nil || s.st.stock[env+"/"+line.OfferCode] < quantities[line.OfferCode] {
			return nil, refuse("offer_not_found", "An offer is unknown or no longer available.")
		}
		if !slices.Contains(offer.DurationDays, in.days) {
			return nil, invalid("duration_days", "is not supported by %s", line.OfferCode)
		}
		if offer.MaxQuantity > 0 && quantities[line.OfferCode] > offer.MaxQuantity {
			return nil, invalid(in.field(i, "quantity"), "is over the offer's max_quantity")
		}
	}
	if i, message := checkCIDRs(in.lines, s.st.byCode); message != "" {
		return nil, invalid(in.field(i, "cidrs"), "%s", message)
	}
	return quantities, nil
}

// checkCIDRs gives the first line that chooses what it must not.
func checkCIDRs(lines []orderLine, offers map[string]*FixtureOffer) (line int, message string) {
	random, chosen := map[string]bool{}, map[[2]string]bool{}
	choosing := map[string]bool{}
	for i, line := range lines {
		if len(line.CIDRs) == 0 {
			random[line.OfferCode] = true
		}
		for _, c := range line.CIDRs {
			pair := [2]string{line.OfferCode, c}
			if chosen[pair] {
				return i, "the same CIDR appears twice"
			}
			if !slices.Contains(offers[line.OfferCode].CIDRs, c) {
				return i, "is not one of the offer's CIDRs"
			}
			chosen[pair], choosing[line.OfferCode] = true, true
		}
		if random[line.OfferCode] && choosing[line.OfferCode] {
			return i, "random allocation and chosen CIDRs must not be mixed for one offer"
		}
	}
	return 0, ""
}
