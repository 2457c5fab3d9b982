package queue

import (
	"errors"
	"strings"
	"testing"

	"perennial/queue/natstest"
)

func TestAccountNamesThatCouldEscapeTheirSubjectAreRefused(t *testing.T) {
	for _, name := range []string{"main", "a", "eu-1", strings.Repeat("x", 32)} {
		natstest.Check(t, ValidAccount(name))
	}
	for _, name := range []string{"", "Main", "a.b", "*", ">", "a b", "ä", "main\n", strings.Repeat("x", 33)} {
		if ValidAccount(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

// The client library takes an address without a host for this machine's server.
func TestAnAddressThatIsNoneReachesNoServer(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"nats://h:4222": true, "tls://h": true, "h:4222": true, "wss://h, nats://i": true, "h": true,
		"nosuch://": false, "nats://": false, "http://h:4222": false, "nats://h,nats://": false, "": false,
	} {
		if areAddresses(address) != ok {
			t.Errorf("%q", address)
		}
	}
	if _, err := Connect(ConnectConfig{URL: "nosuch://", Log: natstest.Quiet()}); !errors.Is(err, errNoURL) {
		t.Error(err)
	}
}
