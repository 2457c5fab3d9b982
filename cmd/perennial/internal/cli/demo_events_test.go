package cli

import (
	"testing"
)

func TestALongLineIsBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"charged 16.80 USD": "charged 16.80 USD", "one two three charged 4.20 USD": "one two three\n  charged 4.20 USD", "averyveryverylongwordindeed x": "averyveryverylongwordindeed\n  x",
	} {
		if got := wrapped(text, 18, "\n  "); got != want {
			t.Errorf("%q", got)
		}
	}
}
