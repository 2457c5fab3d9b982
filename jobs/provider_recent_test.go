package jobs

import (
	"maps"
	"testing"
	"time"

	"perennial/upstream"
)

func TestAProviderWindowForgetsWhatIsOld(t *testing.T) {
	var w ProviderWindow
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if r := w.Recent(noon); r.Requests != 0 || r.Since != nil || r.P50Millis != nil {
		t.Fatalf("before the first request: %+v", r)
	}
	for range 98 {
		w.Add(upstream.Exchange{Code: "ok", HTTPStatus: 200, Sent: true, Took: 100 * time.Millisecond}, noon)
	}
	w.Add(upstream.Exchange{Code: "rate_limited", HTTPStatus: 429, Sent: true, Took: 2 * time.Second}, noon.Add(time.Minute))
	w.Add(upstream.Exchange{Code: "ok", HTTPStatus: 200, Sent: true, Took: 2 * time.Second}, noon.Add(time.Minute))
	w.Add(upstream.Exchange{Sent: true, Took: time.Minute}, noon.Add(2*time.Minute))
	r := w.Recent(noon.Add(3 * time.Minute))
	if r.Requests != 101 || r.RateLimited != 1 || !maps.Equal(r.Codes, map[string]int64{"ok": 99, "rate_limited": 1, "none": 1}) {
		t.Errorf("%+v", r)
	}
	if *r.P50Millis < 100 || *r.P50Millis > 113 || *r.P99Millis < 2000 || *r.P99Millis > 2251 {
		t.Errorf("half in %d ms, 99 of 100 in %d ms", *r.P50Millis, *r.P99Millis)
	}
	if r.Answers || !r.Since.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("it answers %t since %s", r.Answers, r.Since)
	}
	if r = w.Recent(noon.Add(15 * time.Minute)); r.Requests != 3 || r.Answers {
		t.Errorf("a quarter of an hour later %+v", r)
	}
	if r = w.Recent(noon.Add(time.Hour)); r.Requests != 0 || r.P99Millis != nil || r.Since == nil {
		t.Errorf("an hour later %+v", r)
	}
	w.Add(upstream.Exchange{Code: "ok", HTTPStatus: 200, Took: 1000 * time.Second}, noon.Add(2*time.Hour))
	if r = w.Recent(noon.Add(2 * time.Hour)); !r.Answers || !r.Since.Equal(noon.Add(2*time.Hour)) || r.Requests != 1 || r.P99Millis == nil {
		t.Errorf("when it answers again %+v", r)
	}
}
