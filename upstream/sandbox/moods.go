package sandbox

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The quirks (extension). Each quirk is behaviour that customer-api.md permits. README.md
// quotes the sentence that permits it, or says that the document is silent. A client that works
// with all quirks does not rely on undocumented behaviour.
const (
	MoodLaggingReads          = "lagging_reads"
	MoodEmptyLeftOut          = "empty_left_out"
	MoodUnknownFields         = "unknown_fields"
	MoodUnknownStatuses       = "unknown_statuses"
	MoodEarlyRefusals         = "early_refusals"
	MoodReplayedEnvelopes     = "replayed_envelopes"
	MoodWildRetryAfter        = "wild_retry_after"
	MoodContradictingStatuses = "contradicting_statuses"
	MoodRenamedOffers         = "renamed_offers"
	MoodShortTokens           = "short_tokens"
	MoodSmallPages            = "small_pages"
	MoodSecondArray           = "second_array"
)

// Moods returns the names of all quirks, in the order of README.md.
func Moods() []string {
	return []string{MoodLaggingReads, MoodEmptyLeftOut, MoodUnknownFields, MoodUnknownStatuses, MoodEarlyRefusals, MoodReplayedEnvelopes,
		MoodWildRetryAfter, MoodContradictingStatuses, MoodRenamedOffers, MoodShortTokens, MoodSmallPages, MoodSecondArray}
}

// moodSetting is the body of POST /moods. The name "all" selects every quirk.
type moodSetting struct {
	Moods []string `json:"moods"`
	Seed  uint64   `json:"seed"`
}

func (s *controls) setMoods(in *moodSetting) error {
	var on []string
	for _, name := range in.Moods {
		switch {
		case name == "all":
			on = Moods()
		case slices.Contains(Moods(), name):
			on = append(on, name)
		default:
			return invalid("moods", "%q is no mood: choose all, or of %s", shorten(name), strings.Join(Moods(), ", "))
		}
	}
	s.moods.set(on, in.Seed)
	return nil
}

// moodSet contains the active quirks and their random numbers. The numbers depend only on the
// seed and the order of the requests.
type moodSet struct {
	mu     sync.Mutex
	on     []string
	seed   uint64
	random *rand.Rand
}

func (m *moodSet) set(on []string, seed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.seed, m.random = on, seed, rand.New(rand.NewPCG(seed, 0x6d6f6f64))
}

func (m *moodSet) clear() { m.set(nil, 0) }

func (m *moodSet) has(mood string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.on, mood)
}

func (m *moodSet) draw(mood string, n int) bool { return m.has(mood) && m.number(n) == 0 }

func (m *moodSet) number(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

func (m *moodSet) choose(of ...string) string { return of[m.number(len(of))] }

// maxLag limits the age of the state that a lagging read shows.
const maxLag = 4 * time.Minute

// asOf returns the time whose state a read shows. The zero time means the present. Half of the
// reads lag.
func (m *moodSet) asOf(now time.Time) time.Time {
	if !m.draw(MoodLaggingReads, 2) {
		return time.Time{}
	}
	return now.Add(-time.Duration(m.number(int(maxLag/time.Second))+1) * time.Second)
}

// largestPage returns the largest page size for orders and proxies. Without the quirk it returns
// 0. The size depends only on the seed.
func (m *moodSet) largestPage(resource string) int {
	if resource == "offers" || !m.has(MoodSmallPages) { // the API document gives 200 for offers
		return 0
	}
	return []int{3, 10, 20, 49}[m.fixed(4)]
}

// fixed returns a number from 0 to n-1 that depends only on the seed.
func (m *moodSet) fixed(n uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seed % n
}

// renamed returns an offer under its current names. The quirk changes the names every three
// minutes.
func (m *moodSet) renamed(o *FixtureOffer, now time.Time) *FixtureOffer {
	if !m.has(MoodRenamedOffers) {
		return o
	}
	turn := (uint64(now.Unix()/180) + m.fixed(3) + uint64(len(o.OfferCode))) % 3
	if turn == 0 {
		return o
	}
	called := *o
	suffix := [...]string{"", " (new)", " II"}[turn]
	called.Name, called.Region, called.LineName = o.Name+suffix, o.Region+suffix, o.LineName+suffix
	return &called
}

// refusesEarly imitates a provider that checks balance, offers and proxies before the
// idempotency key. The provider may then refuse a repeated request although it executed the
// first one. The caller holds the lock.
func (s *front) refusesEarly(r *request) (no *refusal) {
	if r.key.space.records[r.idempotencyKey()] == nil || !s.moods.draw(MoodEarlyRefusals, 2) {
		return nil // without a record the usual checks apply
	}
	again := invalid("proxy_ids.0", "was renewed a moment ago")
	if r.rt.name == routeOrders {
		again = refuse("offer_not_found", "An offer is unknown or no longer available.")
		_, _, no = s.writes.orderOf(r)
	} else {
		_, _, _, no = s.writes.renewalOf(r)
	}
	if no == nil && s.moods.number(3) == 0 {
		return again
	}
	return no
}

// past contains the earlier values of an item, in memory. It is empty without the quirk.
type past[T any] []before[T]

type before[T any] struct {
	until time.Time // the time when the value changed
	value *T        // nil: the item did not exist
}

// keepPast stores the value of an item before a change. The caller holds the lock.
func keepPast[T any](s *world, p *past[T], was *T) {
	if !s.moods.has(MoodLaggingReads) {
		return
	}
	now := s.now()
	kept := slices.DeleteFunc(*p, func(b before[T]) bool { return now.Sub(b.until) > maxLag })
	if n := len(kept); n == 0 || !kept[n-1].until.Equal(now) {
		kept = append(kept, before[T]{now, was})
	}
	*p = kept
}

// asOf returns the value at a time. It returns nil if the item did not exist.
func (p past[T]) asOf(at time.Time, present *T) *T {
	if !at.IsZero() {
		for _, b := range p {
			if b.until.After(at) {
				return b.value
			}
		}
	}
	return present
}

type quirks struct {
	*world
}

// apply changes the bytes of a reply. It does not change charges or idempotency records.
func (s *quirks) apply(r *request, out reply) reply {
	if out.replayed && s.moods.draw(MoodReplayedEnvelopes, 2) {
		out.body = restamp(out.body, s.now())
	}
	out = s.contradict(r, out)
	if out.code == "rate_limited" && s.moods.has(MoodWildRetryAfter) {
		out.retryAfter = s.wildRetryAfter()
	}
	if s.moods.draw(MoodEmptyLeftOut, 2) {
		out.body = omitEmpty(out.body)
	}
	if s.moods.has(MoodUnknownStatuses) {
		out.body = s.unknownStatuses(out.body)
	}
	if s.moods.has(MoodSecondArray) {
		out.body = s.secondArray(out.body)
	}
	if s.moods.draw(MoodUnknownFields, 2) {
		out.body = s.unknownFields(out.body)
	}
	return out
}

func restamp(body []byte, now time.Time) []byte {
	name := []byte(`,"timestamp":"`)
	start := bytes.LastIndex(body, name) + len(name)
	_, rest, ends := bytes.Cut(body[start:], []byte(`"`))
	if start < len(name) || !ends {
		return body
	}
	return append(append(now.AppendFormat(bytes.Clone(body[:start]), time.RFC3339), '"'), rest...)
}

// namedStatuses are the codes whose HTTP status the API document gives.
var namedStatuses = map[string]bool{"ok": true, "idempotency_unresolved": true, "operation_failed": true, "rate_limited": true}

// contradict sends a refusal with the HTTP status of a success or a server error. Sometimes it
// reports an executed request as refused, also with one of these HTTP statuses.
func (s *quirks) contradict(r *request, out reply) reply {
	if !s.moods.has(MoodContradictingStatuses) {
		return out
	}
	status := []int{http.StatusOK, http.StatusCreated, http.StatusInternalServerError, http.StatusBadGateway}[s.moods.number(4)]
	switch {
	case !namedStatuses[out.code] && s.moods.number(2) == 0:
		out.status = status
	case out.code == "ok" && r.http.Method == http.MethodPost && s.moods.number(4) == 0:
		missing := map[bool]string{true: "offer_not_found", false: "proxy_not_found"}[r.rt.name == routeOrders]
		code := s.moods.choose("validation_error", "unsupported_operation", missing)
		return s.envelope(status, code, "The request could not be completed.", nil)
	}
	return out
}

func (s *quirks) wildRetryAfter() string {
	now := s.now()
	return s.moods.choose("", "soon", "-30", "0", "1.5", "1e3", "99999999999999999999", strconv.FormatInt(now.Unix()+30, 10),
		now.Add(-time.Hour).Format(http.TimeFormat), now.AddDate(80, 0, 0).Format(http.TimeFormat), "a minute; please")
}

var emptyFields = []string{"successful_proxy_ids", "failed_proxy_ids", "unresolved_proxy_ids", "proxies", "refund", "poll_after_seconds",
	"next_page_token", "starts_at", "expires_at", "cidrs"}

func omitEmpty(body []byte) []byte {
	for _, name := range emptyFields {
		for _, empty := range [...]string{"[]", "null"} {
			body = bytes.ReplaceAll(body, []byte(`,"`+name+`":`+empty), nil)
		}
	}
	return body
}

// unknownStatuses replaces statuses with names that the API document does not list. It always
// replaces final statuses, and sometimes others.
func (s *quirks) unknownStatuses(body []byte) []byte {
	swap := func(from, to string) { body = bytes.ReplaceAll(body, []byte(from), []byte(to)) }
	swap(`"status":"active","host"`, `"status":"`+s.moods.choose("active", "in_use", "", "suspended")+`","host"`)
	swap(`"status":"completed","payment_status"`, `"status":"`+s.moods.choose("fulfilled", "closed", "completed_v2")+`","payment_status"`)
	swap(`"status":"refunded","payment_status"`, `"status":"`+s.moods.choose("cancelled", "void", "closed")+`","payment_status"`)
	swap(`"refund":{"status":"completed","destination":"wallet"`, `"refund":{"status":"`+s.moods.choose("done", "succeeded")+`","destination":"balance"`)
	if s.moods.number(6) == 0 {
		swap(`"status":"procuring","payment_status"`, `"status":"allocating","payment_status"`)
	}
	return body
}

func (s *quirks) secondArray(body []byte) []byte {
	if !bytes.Contains(body, []byte(`,"has_more":`)) {
		return body
	}
	more := s.moods.choose(`"notices":[]`, `"notices":[{"id":"n_1","text":"maintenance"}]`, `"columns":["proxy_id","order_no"]`, `"sums":[{"count":1,"cents":300}]`)
	data := []byte(`,"data":{`)
	if s.moods.number(2) == 0 {
		return bytes.Replace(body, data, append(data, more+","...), 1)
	}
	return bytes.Replace(body, []byte(`,"page_size":`), []byte(","+more+`,"page_size":`), 1)
}

// addedFields are not in the API document. Some differ from a documented name only in upper and
// lower case.
var addedFields = []string{`"x_new":null`, `"meta":{"status":"x","list":[1,{"proxy_id":7}]}`, `"Status":"of_tomorrow"`, `"ORDER_NO":"ord_other"`,
	`"Charged_Cents":1`, `"Code":"x"`, `"Data":[]`, `"Expires_At":"soon"`, `"tags":[]`, `"extra":1e400`, `"note":"{\"code\":\"ok\"}\u0000"`}

func (s *quirks) unknownFields(body []byte) []byte {
	out := make([]byte, 0, len(body)+len(body)/4)
	quoted := false
	for i := 0; i < len(body); i++ {
		c := body[i]
		out = append(out, c)
		switch {
		case quoted && c == '\\':
			i++
			out = append(out, body[i])
		case c == '"':
			quoted = !quoted
		case !quoted && c == '{' && s.moods.number(3) == 0:
			out = append(out, s.moods.choose(addedFields...)...)
			if body[i+1] != '}' {
				out = append(out, ',')
			}
		}
	}
	return out
}
