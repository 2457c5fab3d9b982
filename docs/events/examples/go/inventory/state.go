package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"
)

// state is the file: the proxies as of its last event.
type state struct {
	Seq     uint64           `json:"seq"`
	Hash    string           `json:"hash"`
	Proxies map[string]proxy `json:"proxies"`
}

// proxy is what is owned; an expiry that is not known is null until an event says it.
type proxy struct {
	ExpiresAt   *time.Time `json:"expires_at"`
	OfferCode   string     `json:"offer_code,omitempty"`
	CountryCode string     `json:"country_code,omitempty"`
}

type line struct {
	proxy

	ProxyID string `json:"proxy_id"`
	State   string `json:"state"`
}

type event struct {
	Type string `json:"type"`
	Data struct {
		line

		CommandID  string `json:"command_id"`
		Lines      []line `json:"lines"`
		LinesTotal int    `json:"lines_total"`
		Ledger     struct {
			Seq  uint64 `json:"seq"`
			Hash string `json:"hash"`
		} `json:"ledger"`
	} `json:"data"`
}

// apply changes the state by one event. Types that it does not know are none of its
// business.
func (s *state) apply(e event) {
	switch e.Type {
	case "perennial.command.finished.v1":
		for _, line := range e.Data.Lines {
			if slices.Contains([]string{"delivered", "succeeded", "charged"}, line.State) {
				s.own(line)
			}
		}
	case "perennial.proxy.expiring.v1": // seen in the provider's list
		s.own(e.Data.line)
	case "perennial.proxy.expired.v1":
		if !later(s.Proxies[e.Data.ProxyID].ExpiresAt, e.Data.ExpiresAt) {
			delete(s.Proxies, e.Data.ProxyID)
		}
	case "perennial.proxy.gone.v1": // the provider knows it no more
		delete(s.Proxies, e.Data.ProxyID)
	}
}

// own adds a proxy, or what is new of it. A command may finish behind a later one that
// renewed the same proxy: the later expiry stays.
func (s *state) own(l line) {
	p := s.Proxies[l.ProxyID]
	if !later(p.ExpiresAt, l.ExpiresAt) {
		p.ExpiresAt = l.ExpiresAt
	}
	if l.OfferCode != "" {
		p.OfferCode = l.OfferCode
	}
	if l.CountryCode != "" {
		p.CountryCode = l.CountryCode
	}
	s.Proxies[l.ProxyID] = p
}

func later(a, b *time.Time) bool { return a != nil && (b == nil || a.After(*b)) }

func load(path string) (s state, err error) {
	s.Proxies = map[string]proxy{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// save replaces the file: a crash leaves the old one or the new one.
func (s *state) save(path string) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	next, err := os.OpenFile(path+".next", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err := errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}
