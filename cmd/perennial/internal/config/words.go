// Errors of the YAML decoder, in the words of the configuration.

package config

import (
	"regexp"
	"strings"
)

var (
	wantsList = regexp.MustCompile(`'([^']*)' source data must be an array or slice, got \w+`)
	wantsType = regexp.MustCompile(`'([^']*)' expected type '([^']*)', got unconvertible type '([^']*)'(, value: '[^']*')?`)
	wantsMap  = regexp.MustCompile(`'([^']*)' expected a map(?: or struct)?, got "?[\w.]+"?`)
)

// plainConfig says of keys of the configuration what they take. Their values are
// left out: one may be a secret in the wrong place.
func plainConfig(text string) string {
	text = wantsList.ReplaceAllString(text, "$1 must be a list, such as [a, b]")
	text = wantsMap.ReplaceAllString(text, "$1 must hold keys of its own, and is a single value or a list")
	return wantsType.ReplaceAllStringFunc(text, func(one string) string {
		m := wantsType.FindStringSubmatch(one)
		return m[1] + " must be " + configWord(m[2]) + ", and is " + configWord(m[3])
	})
}

func configWord(goType string) string {
	switch {
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "a whole number"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "bool":
		return "true or false"
	case goType == "string":
		return "a text"
	case strings.HasPrefix(goType, "map"):
		return "a mapping of keys"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "something else"
}
