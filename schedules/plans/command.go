package plans

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// noteBytes is the largest size of a PlannedCommand without its id and its prices. priceBytes is
// the largest size of a price.
const noteBytes, priceBytes = 120, 20

// Splits the included proxies into commands, in the plan's order. It skips proxies at the end
// that do not fit in the fact.
func (p *planner) finish(ctx context.Context) error {
	plan, s := &p.plan, p.in.Schedule
	plan.Commands = []json.RawMessage{}
	all := plan.Included
	plan.Included = make([]Included, 0, len(all))
	size, full := 0, false
	for _, part := range chunks(all, s.chunk()) {
		if full {
			p.dropPart(part)
			continue
		}
		data, note, err := p.encodePart(ctx, part)
		if err != nil {
			return err
		}
		grown := size + len(data) + len(note.CommandID) + noteBytes + priceBytes*len(note.PricesCents)
		if full = grown > maxCommandsBytes; full {
			p.dropPart(part)
			continue
		}
		size = grown
		plan.Included = append(plan.Included, part...)
		plan.Commands, plan.Planned = append(plan.Commands, data), append(plan.Planned, note)
	}
	p.total()
	return nil
}

func (p *planner) dropPart(part []Included) {
	for _, one := range part {
		p.leaveOut(tables.Proxy{ProxyID: one.ProxyID, ExpiresAt: &one.ExpiresAt}, ReasonBeyond)
	}
}

func (p *planner) encodePart(ctx context.Context, part []Included) (json.RawMessage, fact.PlannedCommand, error) {
	id, err := p.newID(ctx, part)
	if err != nil {
		return nil, fact.PlannedCommand{}, err
	}
	note := fact.PlannedCommand{CommandID: id, Proxies: len(part)}
	sum := SumOf(part)
	note.EstimateCents, note.UnknownPrice = sum.Cents, sum.Lacks
	note.ListPriceCents, _ = SumListed(part)
	note.PricesCents = differingPrices(part)
	data, err := encodeCommand(p.in.Schedule, id, part)
	return data, note, err
}

// differingPrices returns the expected cost of each proxy. It returns nil if all cost the same,
// or if a price is unknown.
func differingPrices(part []Included) (prices []int64) {
	differ := false
	for _, one := range part {
		if !one.EstimateCents.Known() {
			return nil
		}
		prices = append(prices, one.EstimateCents.Or(0))
		differ = differ || prices[0] != one.EstimateCents.Or(0)
	}
	if !differ {
		return nil
	}
	return prices
}

// SumOf returns the expected cost of proxies.
func SumOf(all []Included) (sum fact.Sum) {
	for _, one := range all {
		sum = sum.Add(one.EstimateCents)
	}
	return sum
}

func (p *planner) total() {
	plan, s := &p.plan, p.in.Schedule
	sum := SumOf(plan.Included)
	plan.EstimateCents, plan.Unpriced = sum.Total(), sum.Lacks
	plan.ListPriceCents, plan.Listed = SumListed(plan.Included)
	plan.Shortfall, plan.Shortfalls = p.short.Total(), shortfalls(p.limits)
	for _, l := range p.limits {
		if plan.RoomCents == nil || l.Room < *plan.RoomCents {
			plan.RoomCents, plan.RoomOf = new(l.Room), LimitNames[l.Reason]
		}
	}
	if plan.WalletCents != nil {
		after := *plan.WalletCents - plan.ReservedCents - plan.WithListed().Cents
		plan.WalletAfterCents = &after
	}
	plan.NeedsApproval = s.ApproveOverCents > 0 && len(plan.Commands) > 0 && p.in.SpentCents+sum.Cents+plan.ListPriceCents > s.ApproveOverCents
	plan.SpentBefore = p.in.SpentCents
	plan.Left = p.left()
	plan.Hash = HashOf(s.Name, plan.Commands)
}

// chunks splits proxies into chunks of at most size proxies. Each canary has a chunk of its own.
// All proxies of a chunk have the same labels, so that the command's cost belongs to these
// labels. Chunks are in the order of their first proxies.
func chunks(all []Included, size int) (parts [][]Included) {
	open := map[string]int{} // by labels: the chunk that still has room
	for _, one := range all {
		key := labelsKey(one.labels)
		at, ok := open[key]
		if one.Canary || !ok || len(parts[at]) == size {
			at, parts = len(parts), append(parts, nil)
			if !one.Canary {
				open[key] = at
			}
		}
		parts[at] = append(parts[at], one)
	}
	return parts
}

const maxRounds = 100

// newID returns a command id for these proxies. For up to maxRounds attempts, it avoids the ids
// of commands that have ended: a command with such an id would be a duplicate and renew nothing.
func (p *planner) newID(ctx context.Context, part []Included) (id string, err error) {
	for round := range maxRounds {
		id = commandID(p.in.Schedule, part, round)
		ended, err := p.known.CommandEnded(ctx, id)
		if err != nil {
			return "", fmt.Errorf("command %s: %w", id, err)
		}
		if !ended {
			return id, nil
		}
	}
	return id, nil
}

// ceilingOf returns max_total_cents for a chunk's command, which is the expected cost of the
// command. It returns nil if a price is unknown. If a price has risen, at most one proxy is
// charged at the new price before the others are planned again.
func ceilingOf(part []Included) *int64 {
	if sum := SumOf(part); sum.Lacks == 0 {
		return &sum.Cents
	}
	return nil
}

// encodeCommand returns the command for a chunk. Its content is derived from the same inputs
// as its id, so one id never has two different contents.
func encodeCommand(s Schedule, id string, part []Included) (json.RawMessage, error) {
	c := command.RenewalCommand{
		ID: id, DurationDays: s.DurationDays, MaxTotalCents: ceilingOf(part),
		ExpectExpiresAt: make(map[string]time.Time, len(part)), Labels: commandLabels(s.Name, part[0].labels),
	}
	var latest time.Time
	for _, one := range part {
		c.ProxyIDs = append(c.ProxyIDs, one.ProxyID)
		c.ExpectExpiresAt[one.ProxyID] = one.ExpiresAt
		if one.ExpiresAt.After(latest) {
			latest = one.ExpiresAt
		}
	}
	c.DueBefore = &latest
	data, err := command.PlainJSON(c)
	if err != nil {
		return nil, fmt.Errorf("encode command %s: %w", c.ID, err)
	}
	return data, nil
}

// commandID hashes the schedule's name and duration, the labels and the cost limit. For each
// proxy it hashes the id, the observed expiry and how many renewals ended without renewing it.
// The commands of a repeated run have the same ids and are duplicates. A run after a failure
// gets new ids. round distinguishes ids if a command with the same inputs has ended.
func commandID(s Schedule, part []Included, round int) string {
	h := newHash(s.Name)
	h = binary.BigEndian.AppendUint64(h, uint64(s.DurationDays))
	for _, one := range part {
		h = fact.AppendField(h, one.ProxyID)
		h = binary.BigEndian.AppendUint64(h, uint64(one.ExpiresAt.UnixMicro()))
		h = binary.BigEndian.AppendUint64(h, uint64(one.Endings))
	}
	if key := labelsKey(part[0].labels); key != "" {
		h = fact.AppendField(h, key)
	}
	if ceiling := ceilingOf(part); ceiling != nil {
		h = binary.BigEndian.AppendUint64(fact.AppendField(h, "max_total_cents"), uint64(*ceiling))
	}
	if round > 0 {
		h = binary.BigEndian.AppendUint64(h, uint64(round))
	}
	return hashedID(IDPrefix(s.Name), h)
}

func hashedID(prefix string, hashed []byte) string {
	sum := sha256.Sum256(hashed)
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// IDPrefix returns the prefix of a schedule's command ids.
func IDPrefix(schedule string) string { return "sweep-" + schedule + "-" }

// HashOf returns the hash of a plan, which depends on the schedule's name and the commands.
func HashOf(schedule string, commands []json.RawMessage) string {
	h := newHash(schedule)
	for _, c := range commands {
		h = fact.AppendField(h, string(c))
	}
	sum := sha256.Sum256(h)
	return hex.EncodeToString(sum[:12])
}

func newHash(schedule string) []byte { return fact.AppendField(nil, schedule) }

func usableExpiry(p tables.Proxy) bool {
	return p.ExpiresAt == nil || fact.WritableInstant(*p.ExpiresAt)
}

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

func labelsKey(labels map[string]string) string {
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key = fact.AppendField(fact.AppendField(key, name), labels[name])
	}
	return string(key)
}
