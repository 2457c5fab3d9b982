// The effects of quirks on replies.

package sandbox

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// variety uses the freedoms that the API document leaves (POST /moods).
type variety struct {
	*world
}

// moody changes a reply on the wire, but not what is recorded under a key or charged.
func (s *variety) moody(r *request, out reply) reply {
	if out.replayed && s.moods.draw(MoodReplayedEnvelopes, 2) {
		out.body = stampedAnew(out.body, s.now())
	}
	out = s.contradict(r, out)
	if out.code == "rate_limited" && s.moods.has(MoodWildRetryAfter) {
		out.retryAfter = s.wildRetryAfter()
	}
	if s.moods.draw(MoodEmptyLeftOut, 2) {
		out.body = leaveOut(out.body)
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

// stampedAnew gives a replayed reply the time of its replay.
func stampedAnew(body []byte, now time.Time) []byte {
	name := []byte(`,"timestamp":"`)
	start := bytes.LastIndex(body, name) + len(name)
	_, rest, ends := bytes.Cut(body[start:], []byte(`"`))
	if start < len(name) || !ends {
		return body
	}
	return append(append(now.AppendFormat(bytes.Clone(body[:start]), time.RFC3339), '"'), rest...)
}

// namedStatuses are the codes with an HTTP status in the document.
var namedStatuses = map[string]bool{"ok": true, "idempotency_unresolved": true, "operation_failed": true, "rate_limited": true}

// contradict sends a refusal with the status of a success or a server error. Sometimes it
// reports an executed request as refused, with such a status.
func (s *variety) contradict(r *request, out reply) reply {
	if !s.moods.has(MoodContradictingStatuses) {
		return out
	}
	status := []int{http.StatusOK, http.StatusCreated, http.StatusInternalServerError, http.StatusBadGateway}[s.moods.number(4)]
	switch {
	case !namedStatuses[out.code] && s.moods.number(2) == 0:
		out.status = status
	case out.code == "ok" && r.http.Method == http.MethodPost && s.moods.number(4) == 0:
		missing := map[bool]string{true: "offer_not_found", false: "proxy_not_found"}[r.rt.name == routeOrders]
		code := s.moods.one("validation_error", "unsupported_operation", missing)
		return s.envelope(status, code, "The request could not be completed.", nil)
	}
	return out
}

// wildRetryAfter returns a Retry-After that is not a usable number of seconds.
func (s *variety) wildRetryAfter() string {
	now := s.now()
	return s.moods.one("", "soon", "-30", "0", "1.5", "1e3", "99999999999999999999", strconv.FormatInt(now.Unix()+30, 10),
		now.Add(-time.Hour).Format(http.TimeFormat), now.AddDate(80, 0, 0).Format(http.TimeFormat), "a minute; please")
}

// emptyFields are the members that a reply omits when they are empty.
var emptyFields = []string{"successful_proxy_ids", "failed_proxy_ids", "unresolved_proxy_ids", "proxies", "refund", "poll_after_seconds",
	"next_page_token", "starts_at", "expires_at", "cidrs"}

func leaveOut(body []byte) []byte {
	for _, name := range emptyFields {
		for _, empty := range [...]string{"[]", "null"} {
			body = bytes.ReplaceAll(body, []byte(`,"`+name+`":`+empty), nil)
		}
	}
	return body
}

// unknownStatuses replaces statuses by names that the document does not list: final ones
// always, others at times.
func (s *variety) unknownStatuses(body []byte) []byte {
	swap := func(from, to string) { body = bytes.ReplaceAll(body, []byte(from), []byte(to)) }
	swap(`"status":"active","host"`, `"status":"`+s.moods.one("active", "in_use", "", "suspended")+`","host"`)
	swap(`"status":"completed","payment_status"`, `"status":"`+s.moods.one("fulfilled", "closed", "completed_v2")+`","payment_status"`)
	swap(`"status":"refunded","payment_status"`, `"status":"`+s.moods.one("cancelled", "void", "closed")+`","payment_status"`)
	swap(`"refund":{"status":"completed","destination":"wallet"`, `"refund":{"status":"`+s.moods.one("done", "succeeded")+`","destination":"balance"`)
	if s.moods.number(6) == 0 {
		swap(`"status":"procuring","payment_status"`, `"status":"allocating","payment_status"`)
	}
	return body
}

// secondArray adds another array beside the list of a page.
func (s *variety) secondArray(body []byte) []byte {
	if !bytes.Contains(body, []byte(`,"has_more":`)) {
		return body
	}
	more := s.moods.one(`"notices":[]`, `"notices":[{"id":"n_1","text":"maintenance"}]`, `"columns":["proxy_id","order_no"]`, `"sums":[{"count":1,"cents":300}]`)
	data := []byte(`,"data":{`)
	if s.moods.number(2) == 0 {
		return bytes.Replace(body, data, append(data, more+","...), 1)
	}
	return bytes.Replace(body, []byte(`,"page_size":`), []byte(","+more+`,"page_size":`), 1)
}

// addedFields are in no version of the document. Some differ from a known name only in
// case.
var addedFields = []string{`"x_new":null`, `"meta":{"status":"x","list":[1,{"proxy_id":7}]}`, `"Status":"of_tomorrow"`, `"ORDER_NO":"ord_other"`,
	`"Charged_Cents":1`, `"Code":"x"`, `"Data":[]`, `"Expires_At":"soon"`, `"tags":[]`, `"extra":1e400`, `"note":"{\"code\":\"ok\"}\u0000"`}

// unknownFields adds a member to every third object of a reply.
func (s *variety) unknownFields(body []byte) []byte {
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
			out = append(out, s.moods.one(addedFields...)...)
			if body[i+1] != '}' {
				out = append(out, ',')
			}
		}
	}
	return out
}
