// Faults that the control interface sets (extension).

package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
)

// fault is one entry of POST /faults (extension). Empty filters match all.
type fault struct {
	filter

	Skip  int    `json:"skip"`  // matches to let pass first
	Times int    `json:"times"` // 0 is 1; negative: for ever
	Fault string `json:"fault"`

	Seconds    float64         `json:"seconds"`     // hang
	Code       string          `json:"code"`        // code
	HTTPStatus int             `json:"http_status"` // code
	RetryAfter string          `json:"retry_after"` // code
	Message    string          `json:"message"`     // code
	Executed   *bool           `json:"executed"`    // code: default false; hang, unresolved_record: default true
	Failed     json.RawMessage `json:"failed"`      // renewal: ids or a count
	Unresolved json.RawMessage `json:"unresolved"`  // renewal: ids or a count

	renewal renewalFault
}

var faultKinds = map[string]bool{"drop_before": true, "drop_after": true, "error_before": true, "error_after": true, "hang": true,
	"truncate": true, "garbage": true, "html": true, "code": true, "unresolved_record": true, "renewal": true}

// check refuses values that make no sense, with the name of the field.
func (f *fault) check(s *Server) error {
	if !faultKinds[f.Fault] {
		return invalid("fault", "%q is unknown", f.Fault)
	}
	if err := f.filter.check(s); err != nil {
		return err
	}
	switch {
	case f.Skip < 0:
		return invalid("skip", "must not be negative")
	case f.Fault == "code" && !printable(f.Code, maxHeaderText):
		return invalid("code", "is missing, or is not printable ASCII")
	case f.HTTPStatus != 0 && (f.HTTPStatus < http.StatusOK || f.HTTPStatus > 599):
		return invalid("http_status", "must be 200 to 599")
	case f.RetryAfter != "" && !printable(f.RetryAfter, maxHeaderText):
		return invalid("retry_after", "is no header text")
	case f.Seconds < 0 || f.Seconds > maxHangSeconds:
		return invalid("seconds", "must be 0 to 86400")
	}
	if f.Times == 0 {
		f.Times = 1
	}
	return f.checkPicks()
}

func (f *fault) checkPicks() error {
	var err error
	if f.renewal.failed, err = parsePick(f.Failed); err != nil {
		return invalid("failed", "%v", err)
	}
	if f.renewal.unresolved, err = parsePick(f.Unresolved); err != nil {
		return invalid("unresolved", "%v", err)
	}
	if f.Fault == "renewal" && len(f.Failed) == 0 && len(f.Unresolved) == 0 {
		return invalid("failed", "or unresolved must say which ids")
	}
	return nil
}

const (
	maxHangSeconds = 24 * 3600
	maxHeaderText  = 256 // bytes
)

// executes reports whether the operation is carried out under this fault.
func (f *fault) executes() bool {
	switch f.Fault {
	case "drop_before", "error_before", "html":
		return false
	case "code":
		return f.Executed != nil && *f.Executed
	case "hang", "unresolved_record":
		return f.Executed == nil || *f.Executed
	}
	return true
}

// faultSet holds the faults in the order in which they were set.
type faultSet struct {
	mu   sync.Mutex
	list []*fault
}

func (fs *faultSet) add(f *fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = append(fs.list, f)
}

func (fs *faultSet) clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = nil
}

// take picks what applies to a request: at most one fault of the reply and one
// that shapes a renewal's result.
func (fs *faultSet) take(r *request) (*fault, renewalFault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var chosen *fault
	var shape renewalFault
	shaped := false
	for _, f := range fs.list {
		isShape := f.Fault == "renewal"
		if !f.matches(r) || isShape && (shaped || r.rt.name != routeRenew) || !isShape && chosen != nil {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times = max(f.Times-1, -1)
		if isShape {
			shape, shaped = f.renewal, true
		} else {
			chosen = f
		}
	}
	fs.list = slices.DeleteFunc(fs.list, func(f *fault) bool { return f.Times == 0 })
	return chosen, shape
}

// renewalFault says which ids of a renewal fail or stay unresolved.
type renewalFault struct{ failed, unresolved pick }

// pick is a list of ids, or a count of ids from the front.
type pick struct {
	ids   map[string]bool
	count int
}

func parsePick(raw json.RawMessage) (pick, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return pick{}, nil
	}
	var n int
	if json.Unmarshal(raw, &n) == nil && n >= 0 {
		return pick{count: n}, nil
	}
	var ids []string
	if err := json.Unmarshal(raw, &ids); err != nil {
		return pick{}, errors.New("must be a list of ids or a count")
	}
	out := pick{ids: make(map[string]bool, len(ids))}
	for _, id := range ids {
		out.ids[id] = true
	}
	return out, nil
}

// verdicts gives each proxy its line state; counts take from the front, failures
// before unresolved ones.
func (f renewalFault) verdicts(chosen []*proxy) []string {
	out := make([]string, len(chosen))
	failed, unresolved := f.failed.count, f.unresolved.count
	for i, p := range chosen {
		switch {
		case f.failed.ids[p.id]:
			out[i] = "failed"
		case f.unresolved.ids[p.id]:
			out[i] = "unresolved"
		case failed > 0:
			out[i] = "failed"
			failed--
		case unresolved > 0:
			out[i] = "unresolved"
			unresolved--
		default:
			out[i] = "succeeded"
		}
	}
	return out
}
