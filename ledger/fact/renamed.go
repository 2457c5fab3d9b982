// This file has former names of fields in facts.

package fact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// renamed maps, by fact type, former names of fields to current names. A field of a nested
// object is given by its path, such as "left.proxies".
var renamed = map[string]map[string]string{
	"ledger.discrepancy": {"kind": "finding"},
	"ledger.recorded":    {"kind": "movement", "cents": "amount_cents"},
	"proxy.skipped":      {"skipped.expires_at": "read_expires_at"},
	"sweep.finished":     {"commands": "published"},
	"sweep.held":         {"wallet_cents": "provider_cents"},
	"sweep.planned":      {"planned.proxies": "proxy_count", "left.proxies": "proxy_count"},
}

// withPresentNames returns a fact's data with the current names of its fields. It returns
// data unchanged if it is not valid JSON.
func withPresentNames(factType string, data []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return data
	}
	rename(value, "", renamed[factType])
	present, err := json.Marshal(value)
	if err != nil {
		return data
	}
	return present
}

// rename changes the names within a value. path is the value's path with a trailing dot.
func rename(value any, path string, names map[string]string) {
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			rename(x, path, names)
		}
	case map[string]any:
		for key, x := range v {
			rename(x, path+key+".", names)
		}
		for former, present := range names {
			key, here := strings.CutPrefix(former, path)
			if x, ok := v[key]; here && ok {
				delete(v, key)
				v[present] = x
			}
		}
	}
}
