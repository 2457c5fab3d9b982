// The Retry-After header.

package upstream

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// RetryAfter is the Retry-After response header (API: Limits). The zero value
// means that the header was absent.
type RetryAfter struct {
	Present bool          // the header was there
	Valid   bool          // it was seconds or an HTTP date
	Delay   time.Duration // how long to wait from now; a date in the past is 0; saturates, never wraps
}

// ParseRetryAfter reads the header's text: whole seconds, or an HTTP date
// relative to now. Absurdly large values are valid and saturate. Anything else,
// a negative number too, is present but not valid.
func ParseRetryAfter(text string, now time.Time) RetryAfter {
	text = strings.TrimSpace(text)
	if text == "" {
		return RetryAfter{Present: true}
	}
	if seconds, ok := parseDigits(text); ok {
		return RetryAfter{Present: true, Valid: true, Delay: secondsToDuration(seconds)}
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return RetryAfter{Present: true}
	}
	return RetryAfter{Present: true, Valid: true, Delay: max(at.Sub(now), 0)}
}

func retryAfterOf(h http.Header, now time.Time) RetryAfter {
	values := h["Retry-After"]
	if len(values) == 0 {
		return RetryAfter{}
	}
	longest := RetryAfter{Present: true}
	for _, v := range values { // several headers: the longest valid one counts
		if r := ParseRetryAfter(v, now); r.Valid && r.Delay >= longest.Delay {
			longest = r
		}
	}
	return longest
}

func parseDigits(s string) (int64, bool) {
	var n int64
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (math.MaxInt64-9)/10 {
			n = math.MaxInt64 / 20
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func secondsToDuration(n int64) time.Duration {
	if n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}
