// The keys of the configuration, as the tags of its fields declare them:
//
//	yaml      name of the key
//	default   value that Defaults sets if the key is absent, empty or 0
//	absent    what an absent key means, for the reference page
//	min, max  bounds of a number
//	doc       description in the reference page

package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"perennial/cmd/perennial/internal/webhook"
	"perennial/queue"
	"perennial/schedules/plans"
)

// key is a configuration key with its value. If it has no tag, it is a structure that
// contains keys.
type key struct {
	path  string
	tag   reflect.StructTag
	value reflect.Value
}

// keys returns a configuration's keys in the order of their declaration. Accounts are sorted by
// name. A structure comes after its keys.
func keys(c *Config) []key { return appendKeys(nil, key{value: reflect.ValueOf(c).Elem()}) }

func appendKeys(all []key, k key) []key {
	v := k.value
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if tag := v.Type().Field(i).Tag; tag.Get("yaml") != "" {
				all = appendKeys(all, key{under(k.path, tag.Get("yaml")), tag, v.Field(i)})
			}
		}
		return append(all, key{path: k.path, value: v})
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Pointer:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		for _, name := range names {
			if one := v.MapIndex(name); !one.IsNil() {
				all = appendKeys(all, key{path: under(k.path, name.String()), value: one.Elem()})
			}
		}
		return all
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			all = appendKeys(all, key{path: k.path + "[" + strconv.Itoa(i) + "]", value: v.Index(i)})
		}
		return all
	}
	return append(all, k)
}

// Defaults sets each key that has the zero value to its default.
func (c *Config) Defaults() {
	for _, k := range keys(c) {
		if text := k.tag.Get("default"); text != "" && k.value.IsZero() {
			_ = yaml.Unmarshal([]byte(text), k.value.Addr().Interface()) // never fails, because a test parses each default
		}
	}
}

// outOfBounds returns an error for each number outside its key's bounds.
func (c *Config) outOfBounds() (all []error) {
	for _, k := range keys(c) {
		if takes := bounds(k.tag); takes != "" {
			number, _ := strconv.ParseFloat(fmt.Sprint(reflect.Indirect(k.value)), 64)
			least, _ := strconv.ParseFloat(k.tag.Get("min"), 64)
			most, err := strconv.ParseFloat(k.tag.Get("max"), 64)
			if !(number >= least && (err != nil || number <= most)) {
				all = append(all, fmt.Errorf("%s must be %s, and is %v", k.path, takes, reflect.Indirect(k.value)))
			}
		}
	}
	return all
}

func bounds(tag reflect.StructTag) string {
	switch least, most := tag.Get("min"), tag.Get("max"); {
	case most != "":
		return least + " to " + most
	case least != "":
		return "at least " + least
	}
	return ""
}

const anyName = "NAME"

// sampleConfig returns a configuration with one entry in each list whose entries have keys.
func sampleConfig() *Config {
	c := &Config{Accounts: map[string]*Account{anyName: {}}, Schedules: make([]plans.Schedule, 1), Webhooks: make([]Webhook, 1)}
	c.NATS.Users = []User{{Roles: make([]Role, 1)}}
	c.HTTP.Identity.People = make([]Person, 1)
	return c
}

// Setting is one key with its effective value. It never contains a secret.
type Setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"` // "line N", "default", or the source of a secret
}

// Settings returns all keys in the order of the reference page. Accounts are sorted by name.
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

// orAbsent returns what the absence of a key means. It parses the text absent as a number or a
// list. If the text is neither, it returns value.
func orAbsent(value any, absent string) any {
	if n, err := strconv.Atoi(absent); err == nil {
		return n
	}
	if strings.HasPrefix(absent, "[") {
		return strings.Split(strings.Trim(absent, "[]"), ", ")
	}
	return value
}

func (c *Config) from(path string) string {
	if line, ok := c.lines[path]; ok {
		return "line " + strconv.Itoa(line)
	}
	if c.File == "" {
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

// secretSetting returns the source of a secret, never its value. If err is not nil, the secret
// cannot be read.
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
