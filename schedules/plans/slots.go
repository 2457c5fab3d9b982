package plans

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"perennial/ledger/fact"
)

const (
	MaxJitter = 30 * time.Second
	// everyHour has the bits of all hours in cron.SpecSchedule.Hour.
	everyHour = 1<<24 - 1
	// MaxMissed limits the scheduled times in one sweep.missed fact.
	MaxMissed = 1000
)

var cronParser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Calendar computes the scheduled times of one schedule, as UTC instants on whole seconds. It
// treats clock changes as cron does. A schedule that does not run every hour runs only once in a
// repeated hour, the first time. In an hour that does not exist, it runs at the end of that
// hour. A schedule that runs every hour follows elapsed time, so it runs in both repeated hours.
type Calendar struct {
	Name   string
	Zone   *time.Location
	spec   cron.Schedule
	every  time.Duration // interval of @every, aligned to the Unix epoch; otherwise 0
	hourly bool          // the schedule runs every hour
}

// Calendar parses the schedule's cron and timezone. An error says which field is invalid
// and what to do.
func (s Schedule) Calendar() (Calendar, error) {
	if strings.HasPrefix(s.Cron, "TZ=") || strings.HasPrefix(s.Cron, "CRON_TZ=") {
		return Calendar{}, fmt.Errorf("cron %q carries a zone: put it into timezone", s.Cron)
	}
	plain, err := cronFields(s.Cron)
	if err != nil {
		return Calendar{}, fmt.Errorf("cron %q: %w", s.Cron, err)
	}
	spec, err := cronParser.Parse(plain)
	if err != nil {
		return Calendar{}, fmt.Errorf("cron %q: %w: use five fields (minute hour day month weekday), six with seconds first, or @hourly, @every 15m", s.Cron, err)
	}
	name := cmp.Or(s.Timezone, "UTC")
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return Calendar{}, fmt.Errorf("timezone %q is not known: use an IANA name such as Europe/Berlin, or UTC", s.Timezone)
	}
	c := Calendar{Name: s.Name, Zone: zone, spec: spec}
	if fields, ok := spec.(*cron.SpecSchedule); ok {
		c.hourly = fields.Hour&everyHour == everyHour
	}
	if every, ok := spec.(cron.ConstantDelaySchedule); ok {
		c.every = every.Delay
		if asked, err := time.ParseDuration(strings.TrimPrefix(s.Cron, "@every ")); err != nil || asked < time.Second || asked%time.Second != 0 {
			return Calendar{}, fmt.Errorf("cron %q: use whole seconds, at least one", s.Cron)
		}
	}
	if c.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Calendar{}, fmt.Errorf("cron %q never comes: check its day and month", s.Cron)
	}
	return c, nil
}

// cronSizes has the number of values of each cron field, starting with seconds.
var cronSizes = []struct {
	field string
	size  uint64
	unit  string // unit of @every; "" for none
}{{"seconds", 60, "s"}, {"minutes", 60, "m"}, {"hours", 24, "h"}, {"days", 31, ""}, {"months", 12, ""}, {"weekdays", 7, ""}}

// cronFields rewrites Sunday from 7 to 0 in a cron expression. It returns an error for a
// step that is larger than its field, because */90 in minutes would run once an hour.
func cronFields(text string) (string, error) {
	fields := strings.Fields(text)
	if strings.HasPrefix(text, "@") || len(fields) < 5 || len(fields) > len(cronSizes) {
		return text, nil // the parser reports errors
	}
	sizes := cronSizes[len(cronSizes)-len(fields):]
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			_, after, _ := strings.Cut(part, "/")
			if step, err := strconv.ParseUint(after, 10, 32); err == nil && step > sizes[i].size {
				why := fmt.Errorf("%s in %s is no step of %d: there are %d", part, sizes[i].field, step, sizes[i].size)
				if unit := sizes[i].unit; unit != "" {
					why = fmt.Errorf("%w, and it would fire once in them: use @every %d%s", why, step, unit)
				}
				return "", why
			}
		}
	}
	last := &fields[len(fields)-1]
	days := strings.Split(*last, ",")
	for i, part := range days {
		days[i] = weekdaysTo7(part)
	}
	*last = strings.Join(days, ",")
	return strings.Join(fields, " "), nil
}

// weekdaysTo7 rewrites weekday 7, or a range that ends in 7, as a list in which Sunday is 0.
func weekdaysTo7(part string) string {
	days, by, _ := strings.Cut(part, "/")
	first, last, is := strings.Cut(days, "-")
	if !is {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 8)
	step, stepErr := strconv.ParseUint(cmp.Or(by, "1"), 10, 8)
	if last != "7" || err != nil || from > 7 || stepErr != nil || step == 0 {
		return part
	}
	var list []string
	for day := from; day <= 7; day += step {
		list = append(list, strconv.FormatUint(day%7, 10))
	}
	return strings.Join(list, ",")
}

// Next returns the first scheduled time after an instant, in UTC. It returns zero if there
// is none within five years.
func (c Calendar) Next(after time.Time) time.Time {
	if c.every > 0 {
		step := int64(c.every / time.Second)
		return time.Unix((after.Unix()/step+1)*step, 0).UTC()
	}
	if c.hourly {
		return c.nextElapsed(after)
	}
	return c.nextByClock(after)
}

// Is reports whether an instant is a scheduled time.
func (c Calendar) Is(at time.Time) bool { return c.Next(at.Add(-time.Second)).Equal(at) }

// Between returns the scheduled times after last, up to and including now, in order. It returns
// at most the latest MaxMissed+1. more is true if there are earlier ones.
func (c Calendar) Between(last, now time.Time) (slots []time.Time, more bool) {
	slots, fits := c.walk(last, now)
	if fits {
		return slots, false
	}
	// A longer time before now has more scheduled times. A binary search therefore finds the
	// longest time whose scheduled times are not too many.
	short, long := time.Duration(0), now.Sub(last)
	for long-short > time.Second {
		middle := short + (long-short)/2
		if some, fits := c.walk(now.Add(-middle), now); fits {
			short, slots = middle, some
		} else {
			long = middle
		}
	}
	return slots, true
}

const (
	// gapsAhead is how far ahead the code searches for gaps. It exceeds a year, because most cron
	// expressions and clock changes repeat within a year.
	gapsAhead = 400 * fact.Day
	gapSteps  = 100_000
)

// Gap returns the longest gap between two scheduled times after an instant, if the gap is longer
// than the argument longer. Otherwise it returns zero times. If no scheduled time follows within
// gapsAhead, the gap begins at the instant.
func (c Calendar) Gap(after time.Time, longer time.Duration) (begin, end time.Time) {
	// The search skips scheduled times that are close together. A step is too short to jump over
	// a gap that is longer than the argument longer.
	step, until := max(longer/2, time.Minute), after.Add(gapsAhead)
	at := c.Next(after)
	if at.After(until) {
		return after, at
	}
	for range gapSteps {
		next := c.Next(at.Add(step - time.Second))
		if at.IsZero() || next.IsZero() || at.After(until) {
			break
		}
		if next.Sub(at) > max(longer, end.Sub(begin)) {
			if from := c.Before(next); next.Sub(from) > max(longer, end.Sub(begin)) {
				begin, end = from, next
			}
		}
		at = next
	}
	return begin, end
}

// Before returns the previous scheduled time. It returns zero if there is none within gapsAhead.
func (c Calendar) Before(slot time.Time) time.Time {
	for back := time.Minute; ; back *= 4 {
		if slots, _ := c.Between(slot.Add(-back), slot.Add(-time.Second)); len(slots) > 0 {
			return slots[len(slots)-1]
		}
		if back > gapsAhead {
			return time.Time{}
		}
	}
}

// fits is false if there are more than MaxMissed+1 scheduled times.
func (c Calendar) walk(last, now time.Time) (slots []time.Time, fits bool) {
	for at := c.Next(last); !at.IsZero() && !at.After(now); at = c.Next(at) {
		if len(slots) > MaxMissed {
			return slots, false
		}
		slots = append(slots, at)
	}
	return slots, true
}

// Start returns the time at which the run of a scheduled time starts. The delay is at most
// MaxJitter, and at most a tenth of the interval. The delay is derived from a hash of the
// schedule's name and the time. Schedules with the same minute therefore spread out, and a
// restart does not change the delay.
func (c Calendar) Start(slot time.Time) time.Time {
	next := c.Next(slot)
	if next.IsZero() {
		return slot
	}
	most := min(MaxJitter, next.Sub(slot)/10)
	h := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d", len(c.Name), c.Name, slot.UnixMicro()))
	return slot.Add(time.Duration(binary.BigEndian.Uint64(h[:8]) % uint64(most+1)).Truncate(time.Millisecond))
}

// nextByClock returns the first scheduled time after an instant, for a schedule that does not
// run every hour. It computes clock times without a zone, and converts them to instants in the
// zone. The conversion keeps their order, so the first instant after the given one is the next
// scheduled time.
func (c Calendar) nextByClock(after time.Time) time.Time {
	shown := fact.Shown(after, c.Zone)
	for {
		next := c.spec.Next(shown)
		if !next.After(shown) {
			return time.Time{}
		}
		if at := fact.FirstShown(next, c.Zone); at.After(after) {
			return at
		}
		shown = next // at is not after the given instant, because the clock time occurs twice or its hour does not exist
	}
}

// nextElapsed returns the first scheduled time after an instant, for a schedule that runs every
// hour. The schedule runs in both passes of a repeated hour. Between two clock changes, clock
// time follows elapsed time, so each such span is searched with a fixed offset. The cron
// parser's own zone support would skip a day without a midnight.
func (c Calendar) nextElapsed(after time.Time) time.Time {
	from := after.Truncate(time.Second)
	span := from.In(c.Zone)
	for {
		_, offset := span.Zone()
		shown := time.Unix(from.Unix()+int64(offset), 0).UTC()
		next := c.spec.Next(shown)
		if !next.After(shown) {
			return time.Time{}
		}
		at := from.Add(next.Sub(shown))
		_, changes := span.ZoneBounds()
		if changes.IsZero() || at.Before(changes) {
			return at.UTC()
		}
		span, from = changes, changes.Add(-time.Second) // the instant of the change may itself be a scheduled time
	}
}
