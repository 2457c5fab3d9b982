package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"perennial/upstream"
)

const (
	envSandbox    = string(upstream.Sandbox)
	envProduction = string(upstream.Production)
)

func environmentOf(appID string) string {
	env, _ := upstream.EnvironmentOf(appID)
	return string(env)
}

// space is one account in one environment.
type space struct {
	env, accountID, email, currency string
	prices                          map[string]int64 // the account's own prices in cents, by offer code; shared with the other environment
	balance                         int64
	frozen                          int64
	status                          *string     // of the account; shared with the other environment
	past                            past[int64] // earlier balances
	proxies                         []*proxy    // in order of delivery
	orders                          []*order    // in order of creation
	records                         map[string]*record
}

func (sp *space) id() string { return sp.accountID + "/" + sp.env }

type apiKey struct {
	appID, secret string
	space         *space
	scopes        []string       // empty: all scopes
	sources       []netip.Prefix // nil: every address
	revoked       bool           // guarded by state.mu
	nonces        nonceSet
}

type proxy struct {
	savedProxy

	space *space
	offer *FixtureOffer
	past  past[proxy]
}

type savedProxy struct {
	ID, Space, Offer, OrderNo string
	Index                     int
	Starts, Expires           time.Time // Expires is zero if the proxy has no expiry
}

// state is all the data that the API shows. Callers hold the lock only briefly.
type state struct {
	mu       sync.Mutex
	spaces   map[string]*space
	keys     map[string]*apiKey // constant after the start
	offers   []*FixtureOffer    // constant after the start
	byCode   map[string]*FixtureOffer
	stock    map[string]int64 // the key is environment/offer_code
	proxies  map[string]*proxy
	orders   map[string]*order
	pending  []*order
	expiring []*record // completed or interrupted records, oldest first
	serial   uint64
	secret   []byte // signs page tokens
}

func newState(f Fixture, epoch time.Time) (*state, error) {
	st := &state{spaces: map[string]*space{}, keys: map[string]*apiKey{}, byCode: map[string]*FixtureOffer{},
		stock: map[string]int64{}, proxies: map[string]*proxy{}, orders: map[string]*order{}}
	for _, a := range f.Accounts {
		st.addAccount(a)
	}
	for i := range f.Offers {
		o := &f.Offers[i]
		st.offers = append(st.offers, o)
		st.byCode[o.OfferCode] = o
		st.stock[envSandbox+"/"+o.OfferCode] = o.Stock
		st.stock[envProduction+"/"+o.OfferCode] = o.Stock
	}
	for _, p := range f.Proxies {
		if err := st.addFixtureProxies(p, epoch); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (st *state) account(id, env string) (*space, error) {
	sp := st.spaces[id+"/"+env]
	switch {
	case env != envSandbox && env != envProduction:
		return nil, invalid("environment", `must be "sandbox" or "production"`)
	case sp == nil:
		return nil, invalid("account_id", "%q is unknown", id)
	}
	return sp, nil
}

func (st *state) addAccount(a FixtureAccount) {
	status := cmp.Or(a.Status, statusActive)
	prices := map[string]int64{}
	maps.Copy(prices, a.Prices)
	frozen := map[string]int64{envSandbox: a.Wallet.SandboxFrozenCents, envProduction: a.Wallet.ProductionFrozenCents}
	for env, cents := range map[string]int64{envSandbox: a.Wallet.SandboxCents, envProduction: a.Wallet.ProductionCents} {
		sp := &space{status: &status, frozen: frozen[env], env: env, accountID: a.AccountID, email: a.Email, currency: cmp.Or(a.Wallet.Currency, "USD"), prices: prices, balance: cents, records: map[string]*record{}}
		st.spaces[sp.id()] = sp
	}
	for _, k := range a.Keys {
		key := &apiKey{appID: k.AppID, secret: k.Secret, revoked: k.Revoked, scopes: k.Scopes, space: st.spaces[a.AccountID+"/"+environmentOf(k.AppID)]}
		for _, c := range k.AllowCIDRs {
			key.sources = append(key.sources, netip.MustParsePrefix(c)) // checked by Validate
		}
		st.keys[k.AppID] = key
	}
}

func (st *state) addFixtureProxies(p FixtureProxy, epoch time.Time) error {
	from, to, known, _ := p.expiry() // checked by Validate
	sp, offer := st.spaces[p.AccountID+"/"+p.Environment], st.byCode[p.OfferCode]
	count := max(p.Count, 1)
	apart := (to - from) / time.Duration(max(count-1, 1))
	for i := range count {
		id := p.ProxyID
		if p.Count > 0 {
			id = p.Prefix + strconv.Itoa(i+1)
		}
		if st.proxies[id] != nil {
			return fmt.Errorf("proxy id %q appears twice", id)
		}
		var expires time.Time
		if known {
			expires = epoch.Add(from + (apart * time.Duration(i)).Truncate(time.Second))
		}
		st.addProxy(&proxy{savedProxy: savedProxy{ID: id, Starts: epoch.AddDate(0, 0, -int(offer.BaseDurationDays)), Expires: expires}, space: sp, offer: offer})
	}
	return nil
}

func (st *state) addProxy(p *proxy) {
	p.Space, p.Offer, p.Index = p.space.id(), p.offer.OfferCode, len(p.space.proxies)
	p.space.proxies = append(p.space.proxies, p)
	st.proxies[p.ID] = p
}

// nextID returns an id that is new even after a restart, because the database stores the serial.
func (st *state) nextID(prefix string) string {
	st.serial++
	return prefix + strconv.FormatUint(st.serial*0x9E3779B97F4A7C15, 36) // odd multiplier: a bijection
}

func (st *state) schedule(o *order) {
	at, _ := slices.BinarySearchFunc(st.pending, o.Due, func(other *order, due time.Time) int {
		if other.Due.After(due) {
			return 1
		}
		return -1
	})
	st.pending = slices.Insert(st.pending, at, o)
}

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

// affords returns a refusal if a charge exceeds the balance. The frozen part of the balance does
// not count (assumed).
func (sp *space) affords(cents int64) *refusal {
	if sp.balance-sp.frozen < cents {
		return refuse("insufficient_wallet_balance", "The wallet is too low.")
	}
	return nil
}

// statusActive is the only status whose account may buy (assumed).
const statusActive = "active"
