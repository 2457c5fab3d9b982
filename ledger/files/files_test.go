package files_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perennial/ledger/files"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// specials returns paths of files that are not regular, made for this test only: a mistake
// would replace them.
func specials(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err, syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, filepath.Join(dir, "link")))
	t.Cleanup(func() { _ = listener.Close() })
	return map[string]string{"pipe": pipe, "link to a pipe": filepath.Join(dir, "link"), "socket": socket, "directory": dir}
}

// Nothing waits, and nothing is replaced.
func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, path := range specials(t) {
		before, err := os.Lstat(path)
		must(t, err)
		_, read := files.Read(path, 10)
		write := files.Write(path, 0o600, func(io.Writer) error { t.Error("called"); return nil })
		_, _, lock := files.TryLock(path)
		for what, err := range map[string]error{"read": read, "write": write, "writable": files.Writable(path), "make": files.Make(path), "regular": files.Regular(path), "lock": lock} {
			if err == nil || !errors.Is(err, files.ErrNotRegular) && (name != "socket" || what != "read") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: %v %v", name, after, err)
		}
	}
}

// The error says what is wrong.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	must(t, os.WriteFile(path, []byte("0123456789"), 0o600))
	if text, err := files.Read(path, 10); err != nil || string(text) != "0123456789" {
		t.Errorf("%s %v", text, err)
	}
	if _, err := files.Read(path, 9); !errors.Is(err, files.ErrTooLarge) {
		t.Error(err)
	}
	no := errors.New("no")
	if _, err := files.Read(path, 10, func(string, fs.FileInfo) error { return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if _, err := files.Read(path+"b", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The error gives the character and its line.
func TestTrap76AByteOrderMarkIsSkippedAndWhatShowsNothingRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"\ufeffhunter2\r\n": "hunter2\r\n", "a\n\tb": "a\n\tb", "пароль": "пароль", "": ""} {
		if got, err := files.Text([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"a\nhun\u200bter2": "(U+200B) in line 2", "hunter2\ufeff": "(U+FEFF) in line 1", "\ufeff\ufeffa": "(U+FEFF)", "hunter2\u00a0\n": "(U+00A0)",
		"hunter2\x00": "(U+0000)", "a\rb": "(U+000D)", "\xff\xfeh\x00": "not text in UTF-8",
	} {
		if _, err := files.Text([]byte(text)); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWriteReplacesALinkWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	must(t, os.WriteFile(target, []byte("keep"), 0o600), os.Chmod(target, 0o666), os.Symlink(target, link))
	say := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error { _, wrote := io.WriteString(w, text); return errors.Join(err, wrote) }
	}
	if err := files.Write(link, 0o600, say("half", io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	must(t, files.Write(link, 0o600, say("new", nil)))
	for path, want := range map[string]string{target: "keep", link: "new"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: %s %v", path, text, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
}

// The file is not created if it cannot have them.
func TestAFileLikeAnotherHasItsOwnerAndMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, next := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	must(t, os.WriteFile(old, nil, 0o600), os.Chmod(old, 0o640))
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 65533, 65534
		must(t, os.Chown(old, uid, gid))
	}
	must(t, files.WriteLike(next, old, func(io.Writer) error { return nil }))
	info, err := os.Stat(next)
	must(t, err)
	if u, g := files.Owner(info); u != uid || g != gid || info.Mode() != 0o640 {
		t.Errorf("%d:%d %v", u, g, info.Mode())
	}
	if os.Geteuid() != 0 { // only root may give a file away
		err := files.WriteLike(filepath.Join(dir, "roots"), "/etc/passwd", func(io.Writer) error { return nil })
		if _, there := os.Stat(filepath.Join(dir, "roots")); err == nil || !strings.Contains(err.Error(), "as root") || there == nil {
			t.Error(err, there)
		}
	}
}

func TestALockIsOfOneHolderAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, got, err := files.TryLock(path)
	if must(t, err); !got {
		t.Fatal("not locked")
	}
	if _, again, err := files.TryLock(path); again || err != nil {
		t.Error(again, err)
	}
	must(t, held.Unlock())
	_, got, err = files.TryLock(path)
	if must(t, err); !got {
		t.Error("not locked again")
	}
}

// Another user could rename what is in them, unless they have the sticky bit.
func TestParentsThatOthersMayWriteAreRefused(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	loose := filepath.Join(dir, "loose")
	link := filepath.Join(elsewhere, "link")
	must(t, os.MkdirAll(filepath.Join(loose, "own", "data"), 0o700), os.Symlink(filepath.Join(loose, "own"), link))
	paths := []string{filepath.Join(loose, "own", "data"), filepath.Join(loose, "own", "not", "there"), filepath.Join(link, "data"), filepath.Join(link, "not"), link}
	for mode, refused := range map[fs.FileMode]bool{0o777: true, 0o772: true, 0o777 | fs.ModeSticky: false, 0o775: false, 0o755: false} {
		must(t, os.Chmod(loose, mode))
		for _, path := range paths {
			err := files.CheckParents(path)
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "chmod o-w "+loose) {
				t.Errorf("%s under %v: %v", path, mode, err)
			}
		}
	}
	must(t, os.Chmod(loose, 0o700), os.Chmod(elsewhere, 0o777)) // where the link could be replaced
	if err := files.CheckParents(filepath.Join(link, "data")); err == nil || !strings.Contains(err.Error(), elsewhere) {
		t.Error(err)
	}
}
