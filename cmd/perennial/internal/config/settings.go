// The effective configuration by key, and the source of each value.

package config

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/webhook"
	"perennial/queue"
)

// Setting is one key with its effective value. It never contains a secret.
type Setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"` // "line N", "default", or the source of a secret
}

// Settings returns all keys in the order of the reference page, and accounts by name.
func (c *Config) Settings() []Setting {
	var all []Setting
	for _, k := range keys(c) {
		if k.tag == "" {
			all = append(all, c.secretsOf(k.value.Addr().Interface(), k.path)...)
			continue
		}
		value := shown(k.path, reflect.Indirect(k.value).Interface())
		if k.value.IsZero() {
			value = orAbsent(value, k.tag.Get("absent"))
		}
		all = append(all, Setting{Key: k.path, Value: value, From: c.from(k.path)})
	}
	return all
}

// orAbsent parses absent, the meaning of an absent key, as a number or a list. It returns
// value if absent is neither.
func orAbsent(value any, absent string) any {
	if n, err := strconv.Atoi(absent); err == nil {
		return n
	}
	if strings.HasPrefix(absent, "[") {
		return strings.Split(strings.Trim(absent, "[]"), ", ")
	}
	return value
}

// from returns the source of a key's value.
func (c *Config) from(path string) string {
	if line, ok := c.lines[path]; ok {
		return "line " + strconv.Itoa(line)
	}
	if c.Embedded {
		return "embedded default"
	}
	return "default"
}

// shown formats a value as the file does. It removes the user info from NATS addresses,
// because it may contain a password. It removes everything after the host from webhook
// addresses, because it may contain a token. The provider's address never contains a secret.
func shown(path string, value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case []time.Duration:
		texts := make([]string, len(v))
		for i, d := range v {
			texts[i] = d.String()
		}
		return texts
	case string:
		if path == "nats.url" && v != "" {
			return queue.Redacted(v)
		}
		if strings.HasPrefix(path, "webhooks[") && strings.HasSuffix(path, "].url") {
			return webhook.Host(v) + "/…"
		}
	}
	return value
}

// secretsOf returns a setting for the secret of an account or a webhook, which is not in the
// file.
func (c *Config) secretsOf(v any, path string) []Setting {
	switch v := v.(type) {
	case *Account:
		name := path[len("accounts."):]
		_, err := c.SecretOf(name)
		return []Setting{secretSetting(path, SecretVariable(name), v.Secret != "" || c.Embedded, err)}
	case *Webhook:
		_, err := c.WebhookSecrets(*v)
		return []Setting{secretSetting(path, WebhookVariable(v.Name), false, err)}
	}
	return nil
}

// secretSetting returns the source of a secret, never its value. err is the reason if the
// secret cannot be read.
func secretSetting(path, variable string, embedded bool, err error) Setting {
	s := Setting{Key: path + " (secret)", Value: "(not shown)"}
	switch {
	case embedded:
		s.From = "embedded default"
	case err != nil:
		s.Value, s.From = "(none)", fmt.Sprintf("secret_file, or %s in the environment", variable)
	case os.Getenv(variable) != "":
		s.From = variable + " in the environment"
	case os.Getenv("CREDENTIALS_DIRECTORY") != "":
		s.From = "CREDENTIALS_DIRECTORY, or secret_file"
	default:
		s.From = "secret_file"
	}
	return s
}
