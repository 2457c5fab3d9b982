// Package disktest simulates a disk for tests. The disk fails on request and records every
// write and sync. PowerCut computes from the record what a power cut would leave. Only tests
// import this package.
//
// The library that New builds intercepts the calls that SQLite makes in C. A process uses it
// if it is started with LD_PRELOAD (see Environment).
package disktest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/disk.c
var source []byte

// Disk controls the simulated disk of a test.
type Disk struct {
	library, fail, trace string
	files                string
}

// New compiles the library of a disk. The disk affects only files whose names contain the text
// files.
func New(t testing.TB, files string) *Disk {
	t.Helper()
	dir := t.TempDir()
	d := &Disk{library: filepath.Join(dir, "disk.so"), fail: filepath.Join(dir, "fail"), trace: filepath.Join(dir, "trace"), files: files}
	c := filepath.Join(dir, "disk.c")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", d.library, c, "-ldl", "-lpthread")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("a C compiler is needed, as for SQLite: %v\n%s", err, out)
	}
	return d
}

// Environment returns the environment variables that make a process use the disk. In that
// process, Given finds the disk by these variables.
func (d *Disk) Environment() []string {
	return []string{"LD_PRELOAD=" + d.library, "DISK_FILES=" + d.files, "DISK_FAIL=" + d.fail, "DISK_TRACE=" + d.trace}
}

// Untraced is like Environment, but without the record of writes. It is for processes that write
// a lot.
func (d *Disk) Untraced() []string {
	return []string{"LD_PRELOAD=" + d.library, "DISK_FILES=" + d.files, "DISK_FAIL=" + d.fail}
}

// KillAt returns an environment variable that kills the process in the middle of its n-th
// write to files whose names end with suffix. Half of the data is written.
func (d *Disk) KillAt(n int, suffix string) string { return fmt.Sprintf("DISK_KILL=%d=%s", n, suffix) }

// Given returns the disk that this process uses, according to its environment variables.
func Given(environment func(string) string) *Disk {
	return &Disk{library: environment("LD_PRELOAD"), files: environment("DISK_FILES"), fail: environment("DISK_FAIL"), trace: environment("DISK_TRACE")}
}

// Fail makes calls fail from now on: "write", "sync" or both fail with EIO, and "full" makes
// writes fail with ENOSPC. A suffix such as "=-wal" limits the failures to files whose names end
// with -wal.
func (d *Disk) Fail(calls string) error {
	next := d.fail + ".next"
	return errors.Join(os.WriteFile(next, []byte(calls), 0o600), os.Rename(next, d.fail))
}

// Heal ends the failures that Fail started.
func (d *Disk) Heal() error { return os.Remove(d.fail) }

// Event is one recorded call.
type Event struct {
	Op     byte   // W: write, T: truncation to Offset, S: sync, U: removal, M: mark
	OK     bool   // whether a sync succeeded
	Name   string // file name without directory, or the text of a mark
	Offset int64
	Data   []byte
}

// Mark adds a mark to the record, after all earlier events.
func (d *Disk) Mark(text string) error {
	header := make([]byte, headerSize, headerSize+len(text))
	header[0], header[1] = 'M', 1
	binary.NativeEndian.PutUint16(header[2:], uint16(len(text)))
	f, err := os.OpenFile(d.trace, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(header, text...))
	return errors.Join(err, f.Close())
}

const headerSize = 16

// Events returns the recorded events, in order.
func (d *Disk) Events() (events []Event, err error) {
	f, err := os.Open(d.trace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var header [headerSize]byte
	for {
		if _, err := io.ReadFull(f, header[:]); errors.Is(err, io.EOF) {
			return events, nil
		} else if err != nil {
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		name := make([]byte, binary.NativeEndian.Uint16(header[2:]))
		e := Event{Op: header[0], OK: header[1] == 1, Offset: int64(binary.NativeEndian.Uint64(header[8:])), Data: make([]byte, binary.NativeEndian.Uint32(header[4:]))}
		_, err := io.ReadFull(f, name)
		if err == nil {
			_, err = io.ReadFull(f, e.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		e.Name = string(name)
		events = append(events, e)
	}
}
