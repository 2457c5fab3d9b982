package ledger

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// The hash of a snapshot depends on the text of its rows, which is encoding/json's, and
// every row is read back as it was.
func TestTheRowsOfASnapshotAreEncodedAsJSONAndReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`), rapid.SampledFrom([]string{"", "<&>", "\x7f", "\u2028", "\"\\/\b", "null"}))
		value := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Int64(), func(n int64) any { return n }), rapid.Map(text, func(s string) any { return s }))
		columns := rapid.IntRange(1, 4).Draw(rt, "columns")
		values := rapid.SliceOfN(value, columns, columns).Draw(rt, "values")
		var got, want bytes.Buffer
		encode := json.NewEncoder(&want)
		encode.SetEscapeHTML(false)
		check(t, encode.Encode(values))
		if err := writeValues(&got, values); err != nil || got.String() != want.String() {
			rt.Fatalf("%q instead of %q (%v)", got.String(), want.String(), err)
		}
		row := got.String()
		c := chunk{columns: "a, b, c, d"[:3*columns-2], rows: []byte("[" + row + "," + row + "]")}
		read, err := c.values()
		if err != nil || !reflect.DeepEqual(read, append(append([]any{}, values...), values...)) {
			rt.Fatalf("%q was read as %v (%v)", c.rows, read, err)
		}
		c.columns += ", e"
		if _, err := c.values(); err == nil {
			rt.Fatalf("%q has a column too few, and is read", c.rows)
		}
	})
}
