// Which requests a fault or a latency applies to.

package sandbox

import (
	"strings"
)

// filter says which requests a fault or a latency is for. Empty fields match
// everything.
type filter struct {
	Environment string `json:"environment"`
	AccountID   string `json:"account_id"` // as claimed by the App ID: nothing is verified yet
	Method      string `json:"method"`
	Path        string `json:"path"` // exact, a route such as /api/v1/orders/{order_no}, or a prefix ending in *
}

func (f *filter) matches(r *request) bool {
	prefix, isPrefix := strings.CutSuffix(f.Path, "*")
	return (f.Environment == "" || f.Environment == r.env) &&
		(f.AccountID == "" || f.AccountID == r.says) &&
		(f.Method == "" || strings.EqualFold(f.Method, r.http.Method)) &&
		(f.Path == "" || f.Path == r.path || f.Path == r.rt.pattern || isPrefix && strings.HasPrefix(r.path, prefix))
}

// check refuses filters that can match nothing: a misspelt one would make a test
// pass for the wrong reason.
func (f *filter) check(s *Server) error {
	if f.Environment != "" && f.Environment != envSandbox && f.Environment != envProduction {
		return invalid("environment", `must be "sandbox" or "production"`)
	}
	if f.AccountID != "" && s.st.spaces[f.AccountID+"/"+envSandbox] == nil {
		return invalid("account_id", "%q is unknown", f.AccountID)
	}
	if strings.ContainsFunc(f.Method, func(c rune) bool { return c < 'A' || c > 'z' || c > 'Z' && c < 'a' }) {
		return invalid("method", "%q is no method", f.Method)
	}
	if f.Path != "" && f.Path != "*" && !strings.HasPrefix(f.Path, "/") {
		return invalid("path", "must begin with a slash")
	}
	return nil
}
