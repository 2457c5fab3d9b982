// How a plan is cut into renewal commands, and how their ids are made.

package plans

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// noteBytes bounds a PlannedCommand's size without its id.
const noteBytes = 100

// finish cuts the included proxies into commands, in the plan's order. It drops from the
// end what the fact cannot hold.
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
		grown := size + len(data) + len(note.CommandID) + noteBytes
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

// dropPart skips proxies for which the plan's fact has no room.
func (p *planner) dropPart(part []Included) {
	for _, one := range part {
		p.leaveOut(tables.Proxy{ProxyID: one.ProxyID, ExpiresAt: &one.ExpiresAt}, ReasonBeyond)
	}
}

// encodePart makes the command of a chunk and its planned cost.
func (p *planner) encodePart(ctx context.Context, part []Included) (json.RawMessage, fact.PlannedCommand, error) {
	id, err := p.newID(ctx, part)
	if err != nil {
		return nil, fact.PlannedCommand{}, err
	}
	note := fact.PlannedCommand{CommandID: id, Proxies: len(part)}
	sum := SumOf(part)
	note.EstimateCents, note.UnknownPrice = sum.Cents, sum.Lacks
	note.ListPriceCents, _ = SumListed(part)
	data, err := encodeCommand(p.in.Schedule, id, part)
	return data, note, err
}

// SumOf returns the expected cost of proxies.
func SumOf(all []Included) (sum fact.Sum) {
	for _, one := range all {
		sum = sum.Add(one.EstimateCents)
	}
	return sum
}

// total sums the plan's cost.
func (p *planner) total() {
	plan, s := &p.plan, p.in.Schedule
	sum := SumOf(plan.Included)
	plan.EstimateCents, plan.Unpriced = sum.Total(), sum.Lacks
	plan.ListPriceCents, plan.Listed = SumListed(plan.Included)
	plan.Shortfall, plan.Shortfalls = p.short.Total(), shortfalls(p.limits)
	if plan.WalletCents != nil {
		after := *plan.WalletCents - plan.ReservedCents - plan.WithListed().Cents
		plan.WalletAfterCents = &after
	}
	plan.NeedsApproval = s.ApproveOverCents > 0 && len(plan.Commands) > 0 && p.in.SpentCents+sum.Cents+plan.ListPriceCents > s.ApproveOverCents
	plan.SpentBefore = p.in.SpentCents
	plan.Left = p.left()
	plan.Hash = HashOf(s.Name, plan.Commands)
}

// chunks cuts proxies into chunks of size, each canary into its own. All proxies of a
// chunk carry the same labels, so that its cost belongs to them. Chunks are in the order
// of their first proxies.
func chunks(all []Included, size int) (parts [][]Included) {
	open := map[string]int{} // by labels: the chunk that is not full
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

// maxRounds bounds the search for an unused id. More rounds would mean that many
// commands ended without a trace on their proxies.
const maxRounds = 100

// newID returns the id of a command for these proxies. The id of an ended command would
// be absorbed as a duplicate and renew nothing.
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

// ceilingOf returns max_total_cents of a chunk's command: its estimate, nil if a price
// is unknown. If a price rose, at most one proxy is charged at it before the rest is
// planned again.
func ceilingOf(part []Included) *int64 {
	if sum := SumOf(part); sum.Lacks == 0 {
		return &sum.Cents
	}
	return nil
}

// encodeCommand makes the command of a chunk. The content is derived from the same inputs
// as the id, so one id never has two different contents.
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

// commandID hashes the schedule, the proxies, their observed expiries, labels, ceiling
// and earlier endings. A repeated run gets the same id and is absorbed; a run after a
// failure gets a new one. The round distinguishes ended ids with the same endings.
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

// hashedID returns the prefix and a hash as an id.
func hashedID(prefix string, hashed []byte) string {
	sum := sha256.Sum256(hashed)
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// IDPrefix returns the prefix of a schedule's command ids.
func IDPrefix(schedule string) string { return "sweep-" + schedule + "-" }

// HashOf returns the hash of a plan: of the schedule's name and its commands.
func HashOf(schedule string, commands []json.RawMessage) string {
	h := newHash(schedule)
	for _, c := range commands {
		h = fact.AppendField(h, string(c))
	}
	sum := sha256.Sum256(h)
	return hex.EncodeToString(sum[:12])
}

func newHash(schedule string) []byte { return fact.AppendField(nil, schedule) }

// usableExpiry is also a rule of the commands stream, for expect_expires_at.
func usableExpiry(p tables.Proxy) bool {
	return p.ExpiresAt == nil || fact.WritableInstant(*p.ExpiresAt)
}
