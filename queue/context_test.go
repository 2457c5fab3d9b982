package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/queue/natstest"
)

func TestAServerWithoutALoginIsNoticed(t *testing.T) {
	for conf, anonymous := range map[string]bool{"jetstream: disabled": true, login: false} {
		q, err := Connect(ConnectConfig{URL: natstest.Start(t, conf).ClientURL(), User: "ops", Password: "pw", Log: natstest.Quiet()})
		natstest.Check(t, err)
		t.Cleanup(q.Close)
		if q.Anonymous() != anonymous {
			t.Errorf("anonymous: %t", !anonymous)
		}
	}
}

// login configures a server that requires a login.
const login = "authorization {user: ops, password: pw}"

func TestNoErrorSaysThePasswordOfAnAddress(t *testing.T) {
	for _, address := range []string{
		"nats://u:hunter2@127.0.0.1:bad", "nats://u:hunter2 @127.0.0.1:1", "nats://u:hunter2@127.0.0.1:1", "nats://u:hunter2@[::1", "u:hunter2@127.0.0.1:1",
		"nats://hunter2@127.0.0.1:1", "nats://u:hunter2#@127.0.0.1:1", "tls://u:x@127.0.0.1:1,nats://hunter2@127.0.0.1:1", "nats://u:%hunter2@127.0.0.1:1",
	} {
		_, err := Connect(ConnectConfig{URL: address, Log: natstest.Quiet()})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func TestNATSContextOfTheCommandLineIsUsed(t *testing.T) {
	server := natstest.Start(t, login)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	natstest.Check(t, os.MkdirAll(dir, 0o700))
	natstest.Check(t, os.WriteFile(filepath.Join(dir, "here.json"), []byte(`{"url":"`+server.ClientURL()+`","user":"ops","password":"pw"}`), 0o600))
	q, err := Connect(ConnectConfig{Context: "here", Log: natstest.Quiet()})
	natstest.Check(t, err)
	q.Close()
	for _, name := range []string{"missing", "../here", ""} {
		if _, err := Connect(ConnectConfig{Context: name, Log: natstest.Quiet()}); err == nil {
			t.Errorf("context %q was accepted", name)
		}
	}
}
