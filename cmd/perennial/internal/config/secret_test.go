package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

type owned struct {
	mode     fs.FileMode
	uid, gid uint32
}

func (o owned) Name() string       { return "main.secret" }
func (o owned) Size() int64        { return 1 }
func (o owned) Mode() fs.FileMode  { return o.mode }
func (o owned) ModTime() time.Time { return time.Time{} }
func (o owned) IsDir() bool        { return false }
func (o owned) Sys() any           { return &syscall.Stat_t{Uid: o.uid, Gid: o.gid} }

// Any other secret that the group may read is refused.
func TestASecretThatRootHandsToTheGroupIsRead(t *testing.T) {
	groups := []int{10001, 7}
	for file, want := range map[owned]bool{
		{0o440, 0, 10001}: true, {0o640, 0, 7}: true, {0o440, 0, 8}: false, {0o440, 10001, 10001}: false,
		{0o660, 0, 10001}: false, {0o444, 0, 10001}: false, {0o450, 0, 10001}: false,
	} {
		if got := readableByGroup(file, groups); got != want {
			t.Errorf("mode %04o of %d:%d is taken: %t", file.mode, file.uid, file.gid, got)
		}
	}
}

// Wherever a secret comes from, a byte order mark is skipped, and any other invisible character is
// refused.
func TestEverySecretIsPlainText(t *testing.T) {
	path := written(t, strings.Replace(webhookAccounts, "sbx_app_a", "sbx_app_a, secret_file: main.secret", 1)+"nats: {url: 'nats://127.0.0.1:1', password_file: nats.secret, users: [{user: ada, password_file: ada.secret, roles: [{role: producer, accounts: [main]}]}]}\n"+
		"webhooks:\n  - {name: b-1, url: 'https://example.com', secret_file: hook.secret}\n")
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, credentials := filepath.Dir(path), t.TempDir()
	nkey := *c
	nkey.NATS.PasswordFile, nkey.NATS.NKeyFile = "", filepath.Join(dir, "nkey.secret")
	hook, _ := c.Webhook("b-1")
	account := func() error { _, err := c.SecretOf("main"); return err }
	endpoint := func() error { _, err := c.Endpoint(hook); return err }
	for _, one := range []struct {
		place string
		read  func() error
	}{
		{"", func() error { _, err := ParseSecret([]byte(os.Getenv("TEST_TEXT"))); return err }},
		{filepath.Join(dir, c.Accounts["main"].SecretFile), account},
		{filepath.Join(dir, "hook.secret"), endpoint},
		{filepath.Join(dir, "nats.secret"), func() error { _, err := c.Target(); return err }},
		{filepath.Join(dir, "ada.secret"), func() error { _, err := c.NATSUsers(); return err }},
		{filepath.Join(dir, "nkey.secret"), func() error { _, err := nkey.Target(); return err }},
		{filepath.Join(credentials, "main.secret"), account},
		{"PERENNIAL_WEBHOOK_B_1_SECRET", endpoint},
		{"PERENNIAL_MAIN_SECRET", account},
	} {
		for text, refused := range map[string]bool{"\ufeff" + webhookSecret: false, webhookSecret[:9] + "\u200b" + webhookSecret[9:]: true} {
			variable := one.place
			if filepath.IsAbs(one.place) {
				variable = "TEST_TEXT"
				if err := os.WriteFile(one.place, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if strings.HasPrefix(one.place, credentials) {
				t.Setenv("CREDENTIALS_DIRECTORY", credentials)
			}
			t.Setenv(cmp.Or(variable, "TEST_TEXT"), text)
			err := one.read()
			if said := fmt.Sprint(err); (err != nil) != refused || refused && (!strings.Contains(said, one.place) || !strings.Contains(said, "U+200B") || strings.Contains(said, webhookSecret[9:])) {
				t.Errorf("%s, %q: %v", one.place, text, err)
			}
		}
	}
}
