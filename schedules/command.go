package schedules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"perennial/ledger"
)

// maxOpaqueID is the longest proxy id that a command may carry, in bytes.
const maxOpaqueID = 256

// noteBytes is the most that a PlannedCommand takes beside its id.
const noteBytes = 100

// command is a renewal as it is written to the commands stream. All of it is a
// function of what its id is made from: the same id never carries other content.
type command struct {
	ID              string               `json:"id"`
	ProxyIDs        []string             `json:"proxy_ids"`
	DurationDays    int64                `json:"duration_days"`
	DueBefore       time.Time            `json:"due_before"` // the latest expiry in it
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at"`
	Labels          map[string]string    `json:"labels"`
}

// finish cuts what is included into commands, in the order of the plan, and
// drops from the end what the fact cannot hold.
func (p *planner) finish(ctx context.Context) error {
	plan, s := &p.plan, p.in.Schedule
	plan.Commands = []json.RawMessage{}
	size, placed := 0, 0
	for _, part := range chunks(plan.Included, s.chunk()) {
		id, err := p.newID(ctx, part)
		if err != nil {
			return err
		}
		data, err := encodeCommand(s, id, part)
		if err != nil {
			return err
		}
		note := ledger.PlannedCommand{CommandID: id, Proxies: len(part)}
		for _, one := range part {
			note.EstimateCents += one.EstimateCents
			if one.Canary {
				note.UnknownPrice++
			}
		}
		grown := size + len(data) + len(note.CommandID) + noteBytes
		if grown > maxCommandsBytes {
			break
		}
		size = grown
		placed += len(part)
		plan.Commands, plan.planned = append(plan.Commands, data), append(plan.planned, note)
	}
	for _, one := range plan.Included[placed:] {
		plan.EstimateCents -= one.EstimateCents
		p.noteLeft(one.ExpiresAt, ReasonBeyond)
		plan.LeftOutCounts[ReasonBeyond]++
		if len(plan.LeftOut) < maxListed {
			plan.LeftOut = append(plan.LeftOut, LeftOut{ProxyID: one.ProxyID, ExpiresAt: one.ExpiresAt, Reason: ReasonBeyond})
		}
	}
	plan.Included = plan.Included[:placed]
	plan.Shortfalls = shortfalls(p.limits)
	if plan.WalletCents != nil {
		after := *plan.WalletCents - plan.ReservedCents - plan.EstimateCents
		plan.WalletAfterCents = &after
	}
	plan.NeedsApproval = s.ApproveOverCents > 0 && len(plan.Commands) > 0 && p.in.SpentCents+plan.EstimateCents > s.ApproveOverCents
	plan.Left = p.left()
	plan.Hash = hashPlan(s.Name, plan.Commands)
	return nil
}

// chunks cuts at size and puts every canary into a chunk of its own.
func chunks(all []Included, size int) (parts [][]Included) {
	for len(all) > 0 {
		n := 1
		for !all[0].Canary && n < min(size, len(all)) && !all[n].Canary {
			n++
		}
		parts, all = append(parts, all[:n]), all[n:]
	}
	return parts
}

// maxRounds bounds the search for an id that has not ended. More would be
// commands that ended without a trace on any of their proxies.
const maxRounds = 100

// newID is the id of a command for these proxies. What has ended is not asked
// for again under its own id: that would be absorbed, and nobody would renew them.
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

func encodeCommand(s Schedule, id string, part []Included) (json.RawMessage, error) {
	c := command{
		ID: id, DurationDays: s.DurationDays,
		ExpectExpiresAt: make(map[string]time.Time, len(part)), Labels: map[string]string{"schedule": s.Name},
	}
	for _, one := range part {
		c.ProxyIDs = append(c.ProxyIDs, one.ProxyID)
		c.ExpectExpiresAt[one.ProxyID] = one.ExpiresAt
		if one.ExpiresAt.After(c.DueBefore) {
			c.DueBefore = one.ExpiresAt
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("encode command %s: %w", c.ID, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// commandID is a function of the schedule, the proxies, their observed expiries
// and their earlier endings: a sweep repeated is absorbed, a sweep after a
// failure asks again. Rounds tell apart what has the same endings and has ended.
func commandID(s Schedule, part []Included, round int) string {
	h := newHash(s.Name)
	h = binary.BigEndian.AppendUint64(h, uint64(s.DurationDays))
	for _, one := range part {
		h = appendField(h, one.ProxyID)
		h = binary.BigEndian.AppendUint64(h, uint64(one.ExpiresAt.UnixMicro()))
		h = binary.BigEndian.AppendUint64(h, uint64(one.Endings))
	}
	if round > 0 {
		h = binary.BigEndian.AppendUint64(h, uint64(round))
	}
	sum := sha256.Sum256(h)
	return "sweep-" + s.Name + "-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

func hashPlan(schedule string, commands []json.RawMessage) string {
	h := newHash(schedule)
	for _, c := range commands {
		h = appendField(h, string(c))
	}
	sum := sha256.Sum256(h)
	return hex.EncodeToString(sum[:12])
}

func newHash(schedule string) []byte { return appendField(nil, schedule) }

func appendField(h []byte, field string) []byte {
	h = binary.BigEndian.AppendUint32(h, uint32(len(field)))
	return append(h, field...)
}

// usableID is the rule of the commands stream: one id that breaks it would have
// the whole command refused.
func usableID(id string) bool {
	return id != "" && len(id) <= maxOpaqueID && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}
