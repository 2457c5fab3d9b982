// This file has the fact that proxies were left out of a renewal.

package fact

import (
	"slices"
	"time"
)

// Limits of the reasons in one ProxySkipped. They are needed because producers choose the
// number of proxies in a command, and the ids of the operations that reserve proxies, which
// the reasons contain.
const (
	maxSkipReasons     = 16
	maxSkipReasonBytes = 1 << 10 // of all reasons together
)

// ProxySkipped records that proxies were left out of a renewal, and why. A single proxy is
// in the fields ProxyID to ExpiresAt. Several proxies are in Skipped, and these fields are
// empty.
type ProxySkipped struct {
	Ref
	ProxyID   string       `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	Code      SkipCode     `json:"code,omitempty" doc:"The reason, for programs; older facts have none."`
	Reason    string       `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	ExpiresAt *time.Time   `json:"expires_at,omitempty" doc:"When the proxy expires."`
	Skipped   []SkippedFor `json:"skipped,omitempty"`
}

// SkippedFor is a list of proxies that were left out for the same reason.
type SkippedFor struct {
	Code      SkipCode             `json:"code,omitempty" doc:"The reason, for programs; older facts have none."`
	Reason    string               `json:"reason" doc:"The reason, for people; the text may change."`
	ProxyIDs  []string             `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	ExpiresAt map[string]time.Time `json:"read_expires_at,omitempty" doc:"'read_expires_at' has the expiries that were read, by proxy."`
}

// FactType implements Fact.
func (ProxySkipped) FactType() string { return "proxy.skipped" }

// SkippedProxy is one proxy that was left out of a renewal.
type SkippedProxy struct {
	ProxyID   string
	Code      SkipCode
	Reason    string
	ExpiresAt *time.Time
}

// Skipped returns the fact that proxies were left out, or nil if left is empty. The fact has
// at most maxSkipReasons different reasons, with maxSkipReasonBytes in total. The remaining
// proxies get the code SkipOther and the reason otherwise.
func Skipped(ref Ref, left []SkippedProxy, otherwise string) []Fact {
	switch len(left) {
	case 0:
		return nil
	case 1:
		return []Fact{ProxySkipped{Ref: ref, ProxyID: left[0].ProxyID, Code: left[0].Code, Reason: left[0].Reason, ExpiresAt: left[0].ExpiresAt}}
	}
	f := ProxySkipped{Ref: ref}
	for _, x := range left {
		i := f.group(x.Reason)
		if i < 0 && f.full(x.Reason) {
			x.Code, x.Reason = SkipOther, otherwise
			i = f.group(otherwise)
		}
		if i < 0 {
			i = len(f.Skipped)
			f.Skipped = append(f.Skipped, SkippedFor{Code: x.Code, Reason: x.Reason})
		}
		f.Skipped[i].add(x)
	}
	return []Fact{f}
}

// group returns the index of a reason in Skipped, or -1.
func (f ProxySkipped) group(reason string) int {
	return slices.IndexFunc(f.Skipped, func(x SkippedFor) bool { return x.Reason == reason })
}

// full reports whether adding the reason would exceed a limit of the fact.
func (f ProxySkipped) full(reason string) bool {
	size := len(reason)
	for _, x := range f.Skipped {
		size += len(x.Reason)
	}
	return len(f.Skipped) >= maxSkipReasons || size > maxSkipReasonBytes
}

func (s *SkippedFor) add(x SkippedProxy) {
	s.ProxyIDs = append(s.ProxyIDs, x.ProxyID)
	if x.ExpiresAt == nil {
		return
	}
	if s.ExpiresAt == nil {
		s.ExpiresAt = map[string]time.Time{}
	}
	s.ExpiresAt[x.ProxyID] = *x.ExpiresAt
}

// Proxies returns the skipped proxies.
func (f ProxySkipped) Proxies() (all []SkippedProxy) {
	if len(f.Skipped) == 0 {
		return []SkippedProxy{{ProxyID: f.ProxyID, Code: f.Code, Reason: f.Reason, ExpiresAt: f.ExpiresAt}}
	}
	for _, s := range f.Skipped {
		for _, id := range s.ProxyIDs {
			x := SkippedProxy{ProxyID: id, Code: s.Code, Reason: s.Reason}
			if at, ok := s.ExpiresAt[id]; ok {
				x.ExpiresAt = &at
			}
			all = append(all, x)
		}
	}
	return all
}
