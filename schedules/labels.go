package schedules

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"perennial/ledger"
)

// Labels that this package gives its commands.
const (
	labelSchedule = "schedule"
	labelReplaces = "replaces"
)

// maxCommandLabels is the rule of the commands stream.
const maxCommandLabels = 32

// carried are the labels that a proxy's renewal carries: those of the order that
// bought it, or those of them that CarryLabels names. Which schedule bought it, in
// the place of what, is the order's alone.
func (s Schedule) carried(p ledger.Proxy) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		named := s.CarryLabels == nil || slices.Contains(s.CarryLabels, name)
		if named && name != labelSchedule && name != labelReplaces && len(out) < maxCommandLabels-1 {
			out[name] = p.Labels[name]
		}
	}
	return out
}

func (s Schedule) checkLabels() error {
	for i, name := range s.CarryLabels {
		if name == "" || slices.Contains(s.CarryLabels[:i], name) {
			return fmt.Errorf("carry_labels: %q is empty or stands twice: name each label once", name)
		}
		if name == labelSchedule || name == labelReplaces {
			return errors.New("carry_labels: schedule and replaces are given by the schedule itself: leave them out")
		}
	}
	return nil
}

func commandLabels(schedule string, carried map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, carried)
	out[labelSchedule] = schedule
	return out
}

// labelsKey is the same for the same labels; "" for none.
func labelsKey(labels map[string]string) string {
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key = appendField(appendField(key, name), labels[name])
	}
	return string(key)
}
