package schedules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

func TestEveryFieldOfAProxyNarrowsASchedule(t *testing.T) {
	start := noon.AddDate(0, 0, -3)
	p := tables.Proxy{
		ProxyID: "px_1", Status: "active", Protocol: "socks5", StartsAt: &start, Labels: map[string]string{"team": "ads", "ticket": "OPS-7"},
	}
	for name, test := range map[string]struct {
		match plans.Match
		fits  bool
	}{
		"status":             {plans.Match{Status: []string{"active"}}, true},
		"another status":     {plans.Match{Status: []string{"paused"}}, false},
		"protocol":           {plans.Match{Protocol: []string{"http", "socks5"}}, true},
		"another protocol":   {plans.Match{Protocol: []string{"http"}}, false},
		"started since":      {plans.Match{StartsFrom: "2026-11-18"}, true},
		"started later":      {plans.Match{StartsFrom: "2026-11-19"}, false},
		"started before":     {plans.Match{StartsBefore: "2026-11-18T12:00:01Z"}, true},
		"not before":         {plans.Match{StartsBefore: "2026-11-18T12:00:00Z"}, false},
		"label":              {plans.Match{Labels: map[string]string{"team": "ads"}}, true},
		"labels":             {plans.Match{Labels: map[string]string{"team": "ads", "ticket": "OPS-7"}}, true},
		"another value":      {plans.Match{Labels: map[string]string{"team": "search"}}, false},
		"a label not there":  {plans.Match{Labels: map[string]string{"owner": ""}}, false},
		"label and protocol": {plans.Match{Labels: map[string]string{"team": "ads"}, Protocol: []string{"http"}}, false},
	} {
		if test.match.Filter(plans.Lists{}).Fits(p) != test.fits {
			t.Errorf("%s: fits is %v", name, !test.fits)
		}
	}
	p.StartsAt = nil
	if (plans.Match{StartsBefore: "2026-11-18"}).Filter(plans.Lists{}).Fits(p) {
		t.Error("a proxy without a start matches a day")
	}
	s := keepalive()
	s.Match.StartsFrom = "yesterday"
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "match.starts_from") {
		t.Errorf("a start that is no day: %v", err)
	}
}

func TestListsFromFilesAreReadForEveryPlan(t *testing.T) {
	s := keepalive()
	s.Match = plans.Match{ProxyIDsFile: "only.txt", ExceptProxyIDs: []string{"px_3"}, ExceptProxyIDsFile: "except.txt"}
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "27h"}, s)
	files := map[string]string{"only.txt": "px_1\n# from the old contract\npx_2\n\n # px_4\npx_3\n", "except.txt": "px_2\n"}
	h.config.ReadFile = func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, errors.New("no file " + name)
		}
		return []byte(text), nil
	}
	h.restart(t)
	h.paid(t, "px_1", 300)
	plan := func() plans.Plan {
		t.Helper()
		p, err := h.PlanNow(t.Context(), "keepalive")
		check(t, err)
		return p
	}
	p := plan()
	want(t, "included", ids(p), []string{"px_1"})
	want(t, "left out", p.LeftOutCounts, map[string]int{plans.ReasonExcepted: 2})
	files["except.txt"] = ""
	want(t, "included once the file allows it", ids(plan()), []string{"px_1", "px_2"})

	delete(files, "except.txt")
	if _, err := h.PlanNow(t.Context(), "keepalive"); err == nil || !strings.Contains(err.Error(), "except_proxy_ids_file") {
		t.Fatalf("without its exceptions: %v", err)
	}
	files["except.txt"], files["only.txt"] = "", "# nothing yet\n"
	if _, err := h.PlanNow(t.Context(), "keepalive"); err == nil || !strings.Contains(err.Error(), "names no proxy") {
		t.Fatalf("an empty list became everything: %v", err)
	}
}

// An exception in a file from another system's editor counts, or the run reports that it cannot
// read the file.
func TestAnExceptionFileIsReadOrRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, fails string }{
		"a byte order mark":     {"\ufeffpx_1\r\n", ""},
		"lines of Windows":      {"# old\r\npx_1\r\n", ""},
		"blanks, wide ones too": {"\u00a0\tpx_1 \u3000\n", ""},
		"lines of an old Mac":   {"px_0\rpx_1\r", "line 1"},
		"UTF-16":                {"\xff\xfep\x00x\x00_\x001\x00", "line 1"},
		"UTF-16 without a mark": {"p\x00x\x00_\x001\x00", "line 1"},
		"Latin-1":               {"px_0\n\npx_\xe4\n", "line 3"},
		"a zero-width space":    {"px_0\npx_1\u200b\n", `line 2: "px_1\u200b" can be no proxy's id`},
		"two files in one":      {"\ufeffpx_0\n\ufeffpx_1\n", "line 2"},
		"quotes":                {"px_0\n\"px_1\"\n", "line 2"},
		"quotes and commas":     {"px_0\n\"px_1\",\n", "line 2"},
		"single quotes":         {"'px_1'\n", "line 1"},
		"a comment behind it":   {"px_0\npx_1 # old\n", "line 2"},
		"an id twice":           {"px_1\n# px_1\npx_1\n", `line 3: "px_1" is in line 1 too`},
	} {
		s := keepalive()
		s.Match.ExceptProxyIDsFile = "except.txt"
		h := newRig(t, map[string]string{"px_1": "24h"}, s)
		h.config.ReadFile = func(string) ([]byte, error) { return []byte(c.file), nil }
		h.restart(t)
		plan, err := h.PlanNow(t.Context(), "keepalive")
		switch {
		case c.fails == "":
			check(t, err)
			want(t, name, why(plan, "px_1"), plans.ReasonExcepted)
		case err == nil || !strings.Contains(err.Error(), "match.except_proxy_ids_file: except.txt: "+c.fails):
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", " px_1", "px_1\n", "px_\u200b1"} {
		s := keepalive()
		s.Match.ExceptProxyIDs = []string{id}
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "match.except_proxy_ids holds") {
			t.Errorf("%+q: %v", id, err)
		}
	}
}

func TestAPlanNamesUnknownProxiesOfItsLists(t *testing.T) {
	s := keepalive()
	s.Match.ExceptProxyIDs, s.Match.ProxyIDs = []string{"px_1", "PX_2", "px_9 px_3", "PX_2"}, []string{"px_1", "px_2", "px_8"}
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h"}, s)
	want(t, "unknown", h.sweep(t).UnknownIDs, []string{"PX_2", "px_8", "px_9 px_3"})
}

func TestARetiredProxyIsLeftOutUntilTakenBack(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	write := func(f fact.Fact) {
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(f) }))
	}
	write(fact.ProxyRetired{ProxyID: "px_2", By: "ada", Reason: "not needed"})
	p, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", ids(p), []string{"px_1"})
	want(t, "reason", why(p, "px_2"), plans.ReasonRetired)
	write(fact.ProxyReinstated{ProxyID: "px_2", By: "ada", Reason: "needed"})
	p, err = h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", ids(p), []string{"px_1", "px_2"})
}

// A live proxy that is being renewed counts as staying, unless its renewal needs review.
func TestWhatMayNotBeRenewedDoesNotStay(t *testing.T) {
	for name, c := range map[string]struct {
		first, state string
		renewed      []string
	}{
		"in progress":               {"26h", "claimed", nil},
		"expired while in progress": {"1h", "claimed", []string{"px_2"}},
		"in review":                 {"26h", "unresolved", []string{"px_2"}},
		"in review, and it expired": {"1h", "unresolved", []string{"px_2"}},
	} {
		s := keepalive()
		s.Keep = plans.Keep{AtLeast: 1}
		h := newRig(t, map[string]string{"px_1": c.first, "px_2": "25h"}, s)
		h.paid(t, "px_2", 300)
		left, err := time.ParseDuration(c.first)
		check(t, err)
		renewal(t, h.Ledger, 1, "px_1", c.state, 300, noon.Add(left))
		h.watch.add(2 * time.Hour)
		want(t, name, ids(h.sweep(t)), c.renewed)
	}
}

func TestWhatStaysIsCountedInTheAccount(t *testing.T) {
	s := keepalive()
	s.Keep = plans.Keep{AtLeast: 3}
	for name, match := range map[string]plans.Match{"by kind": {Protocol: []string{"socks5"}}, "one by one": {ExceptProxyIDs: []string{"px_other"}}} {
		s.Match = match
		h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_far": "100h", "px_never": ""}, s)
		h.paid(t, "px_1", 300)
		p, err := h.PlanNow(t.Context(), "keepalive")
		check(t, err)
		want(t, name, ids(p), []string{"px_1"})
	}
}

func TestLabelsOfAProxysOrderNarrowASchedule(t *testing.T) {
	s := keepalive()
	s.Match.Labels = map[string]string{"team": "ads"}
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	bought(t, h.Ledger, "px_1", map[string]string{"team": "search"})
	bought(t, h.Ledger, "px_2", map[string]string{"team": "ads", "ticket": "OPS-7"})
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", ids(plan), []string{"px_2"})
}

// A # inside an id belongs to the id. If it began a comment, the exception would be for another
// proxy.
func TestAnIDWithAHashIsExcepted(t *testing.T) {
	s := keepalive()
	s.Match.ExceptProxyIDsFile = "except.txt"
	h := newRig(t, map[string]string{"px#1": "24h", "px": "25h", "px_2#": "26h", "#px_3": "27h"}, s)
	h.config.ReadFile = func(string) ([]byte, error) { return []byte("px#1\n  # px\n#px\npx_2#\n"), nil }
	h.restart(t)
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "px#1", why(plan, "px#1"), plans.ReasonExcepted)
	want(t, "px_2#", why(plan, "px_2#"), plans.ReasonExcepted)
	want(t, "not excepted", slices.Contains(ids(plan), "px") || why(plan, "px") != plans.ReasonExcepted, true)
}
