// The effects of quirks on replies.

package sandbox

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// quirks applies the active quirks to replies (POST /moods).
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

// restamp replaces the timestamp of a repeated reply with the current time.
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
// reports an executed request as refused, with such an HTTP status.
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

// wildRetryAfter returns a Retry-After value of any kind. Most values are not a usable number
// of seconds.
func (s *quirks) wildRetryAfter() string {
	now := s.now()
	return s.moods.choose("", "soon", "-30", "0", "1.5", "1e3", "99999999999999999999", strconv.FormatInt(now.Unix()+30, 10),
		now.Add(-time.Hour).Format(http.TimeFormat), now.AddDate(80, 0, 0).Format(http.TimeFormat), "a minute; please")
}

// emptyFields are the members that a reply may omit if they are empty.
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

// secondArray adds another array to the data of a page.
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

// unknownFields adds a member to about every third object in a reply.
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
