// Which requests a fault or a latency applies to.

package sandbox

import (
	"errors"
	"fmt"
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

func (f *filter) matches(env, accountID, method, path string, rt route) bool {
	prefix, isPrefix := strings.CutSuffix(f.Path, "*")
	return (f.Environment == "" || f.Environment == env) &&
		(f.AccountID == "" || f.AccountID == accountID) &&
		(f.Method == "" || strings.EqualFold(f.Method, method)) &&
		(f.Path == "" || f.Path == path || f.Path == rt.pattern || isPrefix && strings.HasPrefix(path, prefix))
}

// check refuses filters that can match nothing: a misspelt one would make a test
// pass for the wrong reason.
func (f *filter) check(s *Server) error {
	if f.Environment != "" && f.Environment != envSandbox && f.Environment != envProduction {
		return wrong("environment", errors.New(`must be "sandbox" or "production"`))
	}
	if f.AccountID != "" && s.st.spaces[f.AccountID+"/"+envSandbox] == nil {
		return wrong("account_id", fmt.Errorf("%q is unknown", f.AccountID))
	}
	if strings.ContainsFunc(f.Method, func(c rune) bool { return c < 'A' || c > 'z' || c > 'Z' && c < 'a' }) {
		return wrong("method", fmt.Errorf("%q is no method", f.Method))
	}
	if f.Path != "" && f.Path != "*" && !strings.HasPrefix(f.Path, "/") {
		return wrong("path", errors.New("must begin with a slash"))
	}
	return nil
}
