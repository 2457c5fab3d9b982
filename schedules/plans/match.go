package plans

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// Match selects the proxies of a schedule. An empty field selects all proxies; a proxy must
// match every field that is set.
type Match struct {
	CountryCode []string `yaml:"country_code" absent:"all" doc:"country codes, in upper or lower case" json:"country_code,omitempty"`
	Region      []string `yaml:"region" absent:"all" doc:"regions, in the provider's words" json:"region,omitempty"`
	LineName    []string `yaml:"line_name" absent:"all" doc:"product lines, in the provider's words" json:"line_name,omitempty"`
	IPType      []string `yaml:"ip_type" absent:"all" doc:"IP types, in the provider's words" json:"ip_type,omitempty"`
	Protocol    []string `yaml:"protocol" absent:"all" doc:"protocols, in the provider's words" json:"protocol,omitempty"`
	Status      []string `yaml:"status" absent:"all" doc:"statuses of proxies, in the provider's words, which the API document does not list" json:"status,omitempty"`
	// A proxy without a start time matches neither starts_from nor starts_before.
	StartsFrom   string `yaml:"starts_from" absent:"all" doc:"proxies that start at this time or later: a day in UTC, such as 2026-11-21, or a time" json:"starts_from,omitempty"`
	StartsBefore string `yaml:"starts_before" absent:"all" doc:"proxies that start before this time: a day or a time" json:"starts_before,omitempty"`

	Labels         map[string]string `yaml:"labels" absent:"all" doc:"labels that the proxy's order must have" json:"labels,omitempty"`
	ProxyIDs       []string          `yaml:"proxy_ids" absent:"all" doc:"only proxies with these ids" json:"proxy_ids,omitempty"`
	ExceptProxyIDs []string          `yaml:"except_proxy_ids" absent:"none" doc:"no proxies with these ids" json:"except_proxy_ids,omitempty"`
	// These files are read for every plan. Their ids are added to the lists above.
	ProxyIDsFile       string `yaml:"proxy_ids_file" doc:"file with more proxy_ids, one per line; a line that begins with # is a comment" json:"proxy_ids_file,omitempty"`
	ExceptProxyIDsFile string `yaml:"except_proxy_ids_file" doc:"file with more except_proxy_ids, in the format of proxy_ids_file" json:"except_proxy_ids_file,omitempty"`
}

func (m Match) check() error {
	for name, text := range map[string]string{"starts_from": m.StartsFrom, "starts_before": m.StartsBefore} {
		if _, err := instantOf(text); err != nil {
			return fmt.Errorf("match.%s is %q: use a day such as 2026-11-21, or an instant such as 2026-11-21T12:00:00Z", name, text)
		}
	}
	for name, ids := range map[string][]string{"proxy_ids": m.ProxyIDs, "except_proxy_ids": m.ExceptProxyIDs} {
		for _, id := range ids {
			if !listable(id) {
				return fmt.Errorf("match.%s holds %+q, which can be no proxy's: %s", name, id, idRule)
			}
		}
	}
	return nil
}

const idRule = "an id has no blanks around it, and nothing that cannot be seen"

// listable reports whether a list may contain an id. An id with surrounding spaces or
// invisible characters would match no proxy, and an exception with it would have no effect.
func listable(id string) bool { return command.ValidID(id) && strings.TrimSpace(id) == id }

func instantOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	return at, err
}

// Single reports whether the match depends on fields that differ for each proxy.
func (m Match) Single() bool {
	return len(m.Labels) > 0 || m.StartsFrom != "" || m.StartsBefore != "" ||
		len(m.ProxyIDs)+len(m.ExceptProxyIDs) > 0 || m.ProxyIDsFile != "" || m.ExceptProxyIDsFile != ""
}

// Fields returns the names of the fields that are set and whose values many proxies share.
func (m Match) Fields() (names []string) {
	for name, list := range map[string][]string{
		"country_code": m.CountryCode, "region": m.Region, "line_name": m.LineName, "ip_type": m.IPType, "protocol": m.Protocol, "status": m.Status,
	} {
		if len(list) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Lists has the ids of a Match's files at the time they were read.
type Lists struct{ ProxyIDs, ExceptProxyIDs []string }

// ReadLists reads the files of a match. It returns an error if a file cannot be read, because a
// run without the exceptions would pay for the excepted proxies.
func (m Match) ReadLists(read func(name string) ([]byte, error)) (l Lists, err error) {
	for _, f := range []struct {
		field, name string
		ids         *[]string
	}{{"proxy_ids_file", m.ProxyIDsFile, &l.ProxyIDs}, {"except_proxy_ids_file", m.ExceptProxyIDsFile, &l.ExceptProxyIDs}} {
		if f.name == "" {
			continue
		}
		if read == nil {
			return l, errors.New("match." + f.field + " is set and nothing reads files")
		}
		text, err := read(f.name)
		if err != nil {
			return l, fmt.Errorf("match.%s: %w", f.field, err)
		}
		if *f.ids, err = listed(string(text)); err != nil {
			return l, fmt.Errorf("match.%s: %s: %w", f.field, f.name, err)
		}
		if f.field == "proxy_ids_file" && len(l.ProxyIDs) == 0 {
			return l, fmt.Errorf("match.proxy_ids_file: %s names no proxy; an empty list would match all", f.name)
		}
	}
	return l, nil
}

// Returns the ids of a file, one per line. A line must be an id, a comment that starts with #, or
// empty. Any other line, for example a line in UTF-16, is an error, because a proxy whose
// exception is misread would be paid for. A byte order mark is skipped.
func listed(text string) (ids []string, err error) {
	n, first := 0, map[string]int{}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		id := strings.TrimSpace(line)
		if id == "" || strings.HasPrefix(id, "#") {
			continue
		}
		switch {
		case !listable(id):
			return nil, fmt.Errorf("line %d: %+.40q can be no proxy's id: write one id a line, in UTF-8; %s", n, id, idRule)
		case strings.ContainsAny(id[:1]+id[len(id)-1:], "\"'`"):
			return nil, fmt.Errorf("line %d: %.40q is in quotes, which would belong to the id: remove them", n, id)
		case strings.Contains(id, " #"):
			return nil, fmt.Errorf("line %d: %.40q may end in a comment or be an id: put the comment on a line of its own, which begins with #", n, id)
		case first[id] > 0:
			return nil, fmt.Errorf("line %d: %.40q is in line %d too: remove one", n, id, first[id])
		}
		first[id] = n
		ids = append(ids, id)
	}
	return ids, nil
}

// Named returns all ids in the match and its files, in no particular order.
func (m Match) Named(l Lists) []string {
	return slices.Concat(m.ProxyIDs, l.ProxyIDs, m.ExceptProxyIDs, l.ExceptProxyIDs)
}

// Filter is a Match that is prepared to check many proxies.
type Filter struct {
	Match
	only, except map[string]bool
	from, before time.Time
}

// Filter builds a Filter from the match and the proxy ids in its files.
func (m Match) Filter(l Lists) *Filter {
	f := &Filter{Match: m, only: map[string]bool{}, except: map[string]bool{}}
	for _, id := range slices.Concat(m.ProxyIDs, l.ProxyIDs) {
		f.only[id] = true
	}
	for _, id := range slices.Concat(m.ExceptProxyIDs, l.ExceptProxyIDs) {
		f.except[id] = true
	}
	f.from, _ = instantOf(m.StartsFrom) // Validate has checked the text
	f.before, _ = instantOf(m.StartsBefore)
	return f
}

// About reports whether the match selects the proxy, ignoring the exceptions.
func (f *Filter) About(p tables.Proxy) bool { return f.matches(p, false) }

// Undecided reports whether the match would select the proxy if some of the proxy's values were
// text.
func (f *Filter) Undecided(p tables.Proxy) bool {
	notText := slices.Contains([]string{p.CountryCode, p.Region, p.LineName, p.IPType, p.Protocol, p.Status}, upstream.NotText)
	return notText && !f.matches(p, false) && f.matches(p, true)
}

// anyOf reports whether list is empty or contains value. If lenient is set, a value that is
// not text counts too.
func anyOf(list []string, value string, lenient bool) bool {
	return len(list) == 0 || slices.Contains(list, value) || lenient && value == upstream.NotText
}

func (f *Filter) matches(p tables.Proxy, lenient bool) bool {
	anyOf := func(list []string, value string) bool { return anyOf(list, value, lenient) }
	country := anyOf(f.CountryCode, p.CountryCode) || slices.ContainsFunc(f.CountryCode, func(c string) bool { return strings.EqualFold(c, p.CountryCode) })
	if !country || !anyOf(f.Region, p.Region) || !anyOf(f.LineName, p.LineName) || !anyOf(f.IPType, p.IPType) ||
		!anyOf(f.Protocol, p.Protocol) || !anyOf(f.Status, p.Status) || (len(f.only) > 0 && !f.only[p.ProxyID]) {
		return false
	}
	for name, value := range f.Labels {
		if have, ok := p.Labels[name]; !ok || have != value {
			return false
		}
	}
	return f.started(p.StartsAt)
}

func (f *Filter) started(at *time.Time) bool {
	if f.from.IsZero() && f.before.IsZero() {
		return true
	}
	return at != nil && !at.Before(f.from) && (f.before.IsZero() || at.Before(f.before))
}

// Fits reports whether the schedule may renew the proxy.
func (f *Filter) Fits(p tables.Proxy) bool { return f.About(p) && !f.except[p.ProxyID] }

// Set returns the names of the fields that are set, without the exceptions.
func (m Match) Set() (names []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"country_code", len(m.CountryCode) > 0}, {"region", len(m.Region) > 0}, {"line_name", len(m.LineName) > 0}, {"ip_type", len(m.IPType) > 0},
		{"protocol", len(m.Protocol) > 0}, {"status", len(m.Status) > 0}, {"starts_from", m.StartsFrom != ""}, {"starts_before", m.StartsBefore != ""},
		{"labels", len(m.Labels) > 0}, {"proxy_ids", len(m.ProxyIDs) > 0}, {"proxy_ids_file", m.ProxyIDsFile != ""},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}
