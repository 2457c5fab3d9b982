// Errors for unknown keys, with the line and the key that may have been meant.

package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

var invalidKeys = regexp.MustCompile(`has invalid keys: ([^\n]+)`)

// unknownKeys turns the refusal of keys that nothing reads into lines of the file,
// with the key that may have been meant; the error itself where it is another one.
func unknownKeys(path string, text []byte, err error) error {
	found := invalidKeys.FindStringSubmatch(err.Error())
	if found == nil {
		_, list, _ := strings.Cut(err.Error(), "\n\n")
		return invalid("configuration %s: %s", path, plainConfig(cmp.Or(list, err.Error())))
	}
	var said []string
	for key := range strings.SplitSeq(found[1], ", ") {
		what := fmt.Sprintf("%q is no key of the configuration", key)
		if lines := linesOfKey(string(text), key); lines != "" {
			what = fmt.Sprintf("line %s: %s", lines, what)
		}
		switch near := nearestKey(key); near {
		case "":
		case key:
			what = strings.Replace(what, "is no key of the configuration", "is a key of the configuration, and not one of this place in it", 1)
		default:
			what += fmt.Sprintf(", did you mean %q?", near)
		}
		said = append(said, what)
	}
	return invalid("configuration %s: %s", path, strings.Join(said, "; "))
}

// linesOfKey are the lines with a key, counted from 1, as "3" or "3 or 7"; "" for none.
func linesOfKey(text, key string) string {
	is := regexp.MustCompile(`^[\s\-{,]*["']?` + regexp.QuoteMeta(key) + `["']?\s*:|[{,]\s*["']?` + regexp.QuoteMeta(key) + `["']?\s*:`)
	var lines []string
	for n, line := range strings.Split(text, "\n") {
		if is.MatchString(line) {
			lines = append(lines, strconv.Itoa(n+1))
		}
	}
	return strings.Join(lines, " or ")
}

// nearestKey is the known key that is spelt nearly like this one, "" for none.
func nearestKey(key string) string {
	known := map[string]bool{}
	collectKeys(reflect.TypeFor[Config](), known)
	return Nearest(key, slices.Sorted(maps.Keys(known)), 4)
}

// Nearest is the first known word that is spelt most like this one, "" where each differs
// in as many letters as within, or more.
func Nearest(word string, known []string, within int) (nearest string) {
	for _, k := range known {
		if d := levenshtein.ComputeDistance(word, k); d < within {
			nearest, within = k, d
		}
	}
	return nearest
}

// collectKeys names the keys of a structure and of what it holds.
func collectKeys(t reflect.Type, known map[string]bool) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for field := range t.Fields() {
		if key, _, _ := strings.Cut(field.Tag.Get("koanf"), ","); key != "" && key != "-" && !known[key] {
			known[key] = true
			collectKeys(field.Type, known)
		}
	}
}
