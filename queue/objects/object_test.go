package objects

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestAServerThatStoresNothingEndsAStore: the library does not say that a part was refused.
func TestAServerThatStoresNothingEndsAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored uint64
		p := &pacedReader{Reader: bytes.NewReader(make([]byte, 4*partsAhead)), ctx: t.Context(), stored: func(context.Context) (uint64, error) {
			if stored < partsAhead/4 {
				stored++
			}
			return stored, nil
		}}
		began := time.Now()
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{p}, make([]byte, 1))
		if took := time.Since(began); !errors.Is(err, errNotStored) || took < storesWithin || took > 2*storesWithin {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
