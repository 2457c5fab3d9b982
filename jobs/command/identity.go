package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"perennial/ledger/fact"
)

// Content returns the command in its stored form, and its content hash. The hash does not
// depend on the message's JSON formatting or on the priority.
func (c Command) Content() (json.RawMessage, string, error) {
	content, err := PlainJSON(c)
	if err != nil {
		return nil, "", fmt.Errorf("command %q: %w", c.ID, err)
	}
	hashed := content
	if c.Priority != UrgencyNormal || bytes.ContainsAny(content, "<>&") {
		c.Priority = UrgencyNormal
		// The hash of given content must never change. Earlier versions hashed JSON in which <, >
		// and & were escaped, so the hashed form still escapes them.
		if hashed, err = json.Marshal(c); err != nil {
			return nil, "", fmt.Errorf("command %q: %w", c.ID, err)
		}
	}
	sum := sha256.Sum256(hashed)
	return content, hex.EncodeToString(sum[:]), nil
}

// MessageHash returns the hash of a message as published. It identifies invalid content.
func MessageHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// PlainJSON encodes a value as JSON without escaping <, > and &, because each escaped
// character would take six bytes of the journal.
func PlainJSON(v any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

// ReadContent is the inverse of Content.
func ReadContent(content json.RawMessage) (Command, error) {
	var c Command
	if err := json.Unmarshal(content, &c); err != nil {
		return c, fmt.Errorf("read a stored command: %w", err)
	}
	return c, nil
}

// Key derives the idempotency key of an operation from the account's binding and the
// operation's identity. The key does not depend on stored data, so a lost database cannot
// lead to a second key.
func Key(b fact.Binding, kind fact.Kind, commandID, chunk string, generation int64) string {
	var buf []byte
	for _, field := range []string{b.AccountID, b.Environment, string(kind), commandID, chunk} {
		buf = fact.AppendField(buf, field)
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(generation))
	sum := sha256.Sum256(buf)
	return "perennial-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:25]))
}

// Plan returns an operation of a command, with its key. The operation's id consists of the
// command's id, the chunk and, after a retry, the generation.
func Plan(b fact.Binding, kind fact.Kind, commandID, chunk string, generation int64, ids []string) fact.Planned {
	id := commandID + "/" + chunk
	if generation > 1 {
		id = fmt.Sprintf("%s~%d", id, generation)
	}
	return fact.Planned{
		OperationID: id, Chunk: chunk, Generation: generation,
		Key: Key(b, kind, commandID, chunk, generation), ProxyIDs: ids,
	}
}

// OperationSuffix matches every suffix that Plan appends to a command's id. The suffixes are
// 1 for an order, 0001 to 0051 for a renewal's chunks, and longer forms for halves of chunks
// and for single proxies. A retry adds a generation. A command id with such a suffix could
// equal the id of another command's operation, so it is refused.
const OperationSuffix = `/(?:(?:1|00[0-9]{2}[ab]*)(?:~[0-9]+)?|00[0-9]{2}[ab]*/.+~[0-9]+)$`

var operationSuffix = regexp.MustCompile(OperationSuffix)

// MayNameOperation reports whether an id may be an operation's id.
func MayNameOperation(id string) bool { return operationSuffix.MatchString(id) }

// ChunkSize is the largest number of proxies in one renewal request. Accepted commands keep
// their chunks, so a change affects only new commands.
const ChunkSize = 100

// Operations splits a command into operations. For a renewal, ids has the proxies that no other
// operation has reserved. careful is set if a limit applies. If it is set, the first chunk has
// one proxy, and the charge for this proxy shows the price of the others.
func (c Command) Operations(b fact.Binding, ids []string, careful bool) []fact.Planned {
	switch c.Kind {
	case fact.KindOrder:
		return []fact.Planned{Plan(b, c.Kind, c.ID, "1", 1, nil)}
	case fact.KindRenewal:
		return c.chunks(b, ids, careful)
	}
	return nil
}

func (c Command) chunks(b fact.Binding, ids []string, careful bool) []fact.Planned {
	size := ChunkSize
	if careful {
		size = 1
	}
	var planned []fact.Planned
	for n := 1; len(ids) > 0; n++ {
		size = min(size, len(ids))
		planned = append(planned, Plan(b, c.Kind, c.ID, fmt.Sprintf("%04d", n), 1, ids[:size]))
		ids, size = ids[size:], ChunkSize
	}
	return planned
}

// MayHaveID reports whether a message could be the command with this id. The message was not
// accepted; it may be a dead letter. A message without a readable id could be that command if it
// contains the id as a JSON string.
func MayHaveID(message []byte, id string) bool {
	var c struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(message, &c) == nil && c.ID != "" {
		return c.ID == id
	}
	return bytes.Contains(message, []byte(strconv.Quote(id)))
}
