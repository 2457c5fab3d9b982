// Decode hooks that refuse times without a unit.

package config

import (
	"fmt"
	"reflect"
	"time"
)

// exactly refuses a time without a unit, which would be read as nanoseconds. Whole
// numbers are checkIntegers's.
func exactly(from, to reflect.Type, value any) (any, error) {
	if to == reflect.TypeFor[time.Duration]() {
		return duration(from, value)
	}
	return value, nil
}

func duration(from reflect.Type, value any) (any, error) {
	switch {
	case from.Kind() == reflect.String:
		d, err := time.ParseDuration(reflect.ValueOf(value).String())
		if err != nil {
			return nil, fmt.Errorf("%q is not a time: write it as 72h, 15m or 30s", value)
		}
		return d, nil
	case reflect.ValueOf(value).IsZero() || from == reflect.TypeFor[time.Duration]():
		return value, nil
	}
	return nil, fmt.Errorf("%v has no unit: write it as %vh or %vs", value, value, value)
}
