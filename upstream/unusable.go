// Entries of a list that cannot be read. They make no other entry unreadable (trap 65).

package upstream

import (
	"errors"
	"fmt"
)

// Unusable is an entry of a list that cannot be read.
type Unusable struct {
	ID       string // opaque; empty where the id itself cannot be read
	Position int    // in its list or page, from 1
	// Field is the member that cannot be read; empty where the entry is no object, or a
	// member appears twice.
	Field string
	Why   string // names the field and never its value
}

// UnusableError ends a complete list of which some entries cannot be read.
type UnusableError struct {
	First Unusable
	Count int
}

// Error names the first entry.
func (e *UnusableError) Error() string {
	what := fmt.Sprintf("entry %d", e.First.Position)
	if e.First.ID != "" {
		what = nameOf(e.First.ID, traceLimit)
	}
	return fmt.Sprintf("%d entries of the list cannot be read; the others can: %s: %s", e.Count, what, e.First.Why)
}

func (e *UnusableError) add(page []Unusable) {
	if e.Count == 0 && len(page) > 0 {
		e.First = page[0]
	}
	e.Count += len(page)
}

// decodeEach reads an array of objects with one decoder. The member id names an entry.
func decodeEach[T any](o *object, key, id string, decode func(*object) T) (items []T, unusable []Unusable) {
	raws := o.array(key)
	items = make([]T, 0, len(raws))
	for at, raw := range raws {
		entry, err := parseObject("", raw)
		if err != nil {
			unusable = append(unusable, Unusable{Position: at + 1, Why: err.Error()})
			continue
		}
		item := decode(entry)
		if entry.err == nil {
			items = append(items, item)
			continue
		}
		bad := Unusable{Position: at + 1, Why: entry.err.Error()}
		bad.ID, _ = as[string](entry.raw(id))
		if failed, ok := errors.AsType[*fieldError](entry.err); ok {
			bad.Field = failed.field
		}
		unusable = append(unusable, bad)
	}
	return items, unusable
}
