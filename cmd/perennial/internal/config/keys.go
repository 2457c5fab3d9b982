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
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"perennial/schedules/plans"
)

// key is a configuration key with its value. If it has no tag, it is a structure that
// contains keys.
type key struct {
	path  string
	tag   reflect.StructTag
	value reflect.Value
}

// keys returns a configuration's keys in the order of their declaration, and accounts by name.
// A structure comes after its keys.
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

// anyName is the account name in the result of sampleConfig.
const anyName = "NAME"

// sampleConfig returns a configuration with one entry in each list whose entries have keys.
func sampleConfig() *Config {
	c := &Config{Accounts: map[string]*Account{anyName: {}}, Schedules: make([]plans.Schedule, 1), Webhooks: make([]Webhook, 1)}
	c.NATS.Users = []User{{Roles: make([]Role, 1)}}
	c.HTTP.Identity.People = make([]Person, 1)
	return c
}
