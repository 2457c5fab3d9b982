// This file determines the labels of a renewal.

package plans

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// Labels that schedules add to their commands.
const (
	LabelSchedule = "schedule"
	LabelReplaces = "replaces"
)

// carriedMost limits the size, in bytes, of a renewal's labels without its schedule's label.
const carriedMost = fact.MaxLabelsBytes - len(LabelSchedule) - fact.MaxLabelBytes

// carried returns the labels of a proxy's renewal. These are the labels of the order that
// bought the proxy or, if CarryLabels is set, only those that CarryLabels lists. It leaves
// out labels that a schedule added to a replacement order, and labels that a command may not
// have.
func (s Schedule) carried(p tables.Proxy) map[string]string {
	out, size := map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		value := p.Labels[name]
		named := s.CarryLabels == nil || slices.Contains(s.CarryLabels, name)
		fits := len(out) < fact.MaxLabels-1 && size+len(name)+len(value) <= carriedMost && fact.CheckLabel(name, value) == nil && fact.ClearLabel(name, value) == nil
		if named && name != LabelSchedule && name != LabelReplaces && fits {
			out[name] = value
			size += len(name) + len(value)
		}
	}
	return out
}

func (s Schedule) checkLabels() error {
	for i, name := range s.CarryLabels {
		if name == "" || slices.Contains(s.CarryLabels[:i], name) {
			return fmt.Errorf("carry_labels: %q is empty or appears twice: name each label once", name)
		}
		if name == LabelSchedule || name == LabelReplaces {
			return errors.New("carry_labels: schedule and replaces are given by the schedule itself: leave them out")
		}
	}
	return nil
}

func commandLabels(schedule string, carried map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, carried)
	out[LabelSchedule] = schedule
	return out
}

// labelsKey returns a text that identifies the labels, or "" if there are no labels.
func labelsKey(labels map[string]string) string {
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key = fact.AppendField(fact.AppendField(key, name), labels[name])
	}
	return string(key)
}
