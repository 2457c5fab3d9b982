package queue

import (
	"strings"
	"testing"
)

func TestAccountNamesThatCouldEscapeTheirSubjectAreRefused(t *testing.T) {
	for _, name := range []string{"main", "a", "eu-1", strings.Repeat("x", 32)} {
		check(t, ValidAccount(name))
	}
	for _, name := range []string{"", "Main", "a.b", "*", ">", "a b", "ä", "main\n", strings.Repeat("x", 33)} {
		if ValidAccount(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
