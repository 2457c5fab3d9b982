// This file has the limits of labels.

package fact

import (
	"fmt"
	"strings"
)

// Limits of a command's labels. They are needed because every fact of the command contains
// the labels.
const (
	MaxLabels      = 32
	MaxLabelBytes  = 256     // of a key, and of a value
	MaxLabelsBytes = 2 << 10 // of all keys and values of a command together
)

// CheckLabel returns what is wrong with one label, or nil.
func CheckLabel(key, value string) error {
	if key == "" || len(key) > MaxLabelBytes || len(value) > MaxLabelBytes {
		return fmt.Errorf("label %.40q: keys have 1 to %d bytes, values at most %d", key, MaxLabelBytes, MaxLabelBytes)
	}
	for _, text := range []string{key, value} {
		if why := Unprintable(text); why != "" {
			return fmt.Errorf("label %.40q %s", key, why)
		}
	}
	return nil
}

// ClearLabel returns an error if a label, written as key=value, could be mistaken for
// another label. Facts of older versions may have such labels; new commands may not.
func ClearLabel(key, value string) error {
	switch {
	case strings.Contains(key, "="):
		return fmt.Errorf("label %.40q has '=' in its key, and would read as another one", key)
	case strings.TrimSpace(key) != key || strings.TrimSpace(value) != value:
		return fmt.Errorf("label %.40q begins or ends with a blank, in its key or its value, and would look like another one", key)
	}
	return nil
}

// CheckLabels returns what is wrong with one of the labels, their number or their total
// size, or nil.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("labels has %d entries of at most %d", len(labels), MaxLabels)
	}
	size := 0
	for k, v := range labels {
		if err := CheckLabel(k, v); err != nil {
			return err
		}
		size += len(k) + len(v)
	}
	if size > MaxLabelsBytes {
		return fmt.Errorf("labels have %d bytes together, of at most %d: every fact of the command repeats them", size, MaxLabelsBytes)
	}
	return nil
}
