package main

import (
	"fmt"
	"math"
	"reflect"
	"time"
)

// exactly refuses values that would be read as something else than they say: a
// limit of 0.99 cents as none, and a time without a unit as nanoseconds.
func exactly(from, to reflect.Type, value any) (any, error) {
	switch {
	case to == reflect.TypeFor[time.Duration]():
		return duration(from, value)
	case to.Kind() == reflect.Int || to.Kind() == reflect.Int64:
		return wholeNumber(value)
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

func wholeNumber(value any) (any, error) {
	number, ok := value.(float64)
	if !ok {
		return value, nil
	}
	// From 2^53 on a float no longer holds every whole number.
	if number != math.Trunc(number) || math.Abs(number) >= 1<<53 {
		return nil, fmt.Errorf("%v is not a whole number that can be read exactly", value)
	}
	return int64(number), nil
}
