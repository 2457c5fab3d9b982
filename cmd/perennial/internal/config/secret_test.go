package config

import (
	"io/fs"
	"syscall"
	"testing"
	"time"
)

// owned is what a file system says of a file.
type owned struct {
	mode     fs.FileMode
	uid, gid uint32
}

func (o owned) Name() string       { return "main.secret" }
func (o owned) Size() int64        { return 1 }
func (o owned) Mode() fs.FileMode  { return o.mode }
func (o owned) ModTime() time.Time { return time.Time{} }
func (o owned) IsDir() bool        { return false }
func (o owned) Sys() any           { return &syscall.Stat_t{Uid: o.uid, Gid: o.gid} }

// TestASecretThatRootHandsToTheGroupIsRead, and no other that the group may read.
func TestASecretThatRootHandsToTheGroupIsRead(t *testing.T) {
	groups := []int{10001, 7}
	for file, want := range map[owned]bool{
		{0o440, 0, 10001}: true, {0o640, 0, 7}: true, {0o440, 0, 8}: false, {0o440, 10001, 10001}: false,
		{0o660, 0, 10001}: false, {0o444, 0, 10001}: false, {0o450, 0, 10001}: false,
	} {
		if got := handedTo(file, groups); got != want {
			t.Errorf("mode %04o of %d:%d is taken: %t", file.mode, file.uid, file.gid, got)
		}
	}
}
