package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"perennial/ledger/files"
)

// Charge is one line in the referee: a charge or a refund in positive cents. An order's charge
// has an OrderNo, and a renewal's charge has a ProxyID.
type Charge struct {
	Time           string `json:"time"` // RFC 3339, by the sandbox's clock
	Environment    string `json:"environment"`
	AccountID      string `json:"account_id"`
	AppID          string `json:"app_id"`
	IdempotencyKey string `json:"idempotency_key"`
	Kind           string `json:"kind"`   // "charge" or "refund"
	Reason         string `json:"reason"` // "order" or "renewal"
	AmountCents    int64  `json:"amount_cents"`
	OrderNo        string `json:"order_no,omitempty"`
	ProxyID        string `json:"proxy_id,omitempty"`
}

// ReadCharges reads a referee file. It skips an incomplete last line, which a crash may leave.
// It returns an error with the line number for any other unreadable line.
func ReadCharges(path string) ([]Charge, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("charges: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("charges: %w", err)
	}
	return readCharges(raw)
}

func readCharges(raw []byte) (out []Charge, err error) {
	for line := range bytes.Lines(raw[:bytes.LastIndexByte(raw, '\n')+1]) {
		var c Charge
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("charges: line %d: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	return out, nil
}

type referee struct {
	path   string
	file   *os.File
	noSync bool
	mu     sync.Mutex
	kept   bytes.Buffer // the lines, if there is no file
}

// openReferee removes an incomplete last line, because no reply was sent for it.
func openReferee(path string, noSync bool) (*referee, error) {
	r := &referee{path: path, noSync: noSync}
	if path == "" {
		return r, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600) // also for reading, because opening a named pipe only for writing blocks
	if err != nil {
		return nil, fmt.Errorf("charges: %w", err)
	}
	if err := errors.Join(cutTornLine(f), syncDirectory(path)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("charges: %w", err)
	}
	r.file = f
	return r, nil
}

func syncDirectory(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func cutTornLine(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	raw := make([]byte, size)
	if _, err := f.ReadAt(raw, 0); err != nil {
		return err
	}
	if whole := int64(bytes.LastIndexByte(raw, '\n') + 1); whole < size {
		return f.Truncate(whole)
	}
	return nil
}

func (r *referee) append(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if r.file == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kept.Write(lines)
		return nil
	}
	_, err := r.file.Write(lines)
	if err == nil && !r.noSync {
		err = r.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("charges: %w", err)
	}
	return nil
}

func (r *referee) missing(lines [][]byte) ([][]byte, error) {
	if r.file == nil || len(lines) == 0 {
		return lines, nil
	}
	raw, err := os.ReadFile(r.path)
	if err != nil {
		return nil, fmt.Errorf("charges: %w", err)
	}
	have := map[string]int{}
	for line := range bytes.Lines(raw) {
		have[string(line)]++
	}
	return slices.DeleteFunc(lines, func(line []byte) bool {
		have[string(line)]--
		return have[string(line)] >= 0
	}), nil
}

func (r *referee) all() ([]Charge, error) {
	if r.file != nil {
		return ReadCharges(r.path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return readCharges(r.kept.Bytes())
}

func (r *referee) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
