package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/datadir"
	"perennial/ledger/files"
)

func openNamed(ctx context.Context, name string) (io.ReadCloser, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		return os.Open(name)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name a file in it", name)
	}
	return piped(ctx, func() (io.ReadCloser, error) { return os.Open(name) }), nil
}

// interruptible wraps a reader, such as standard input, so that reading fails when ctx ends.
func interruptible(ctx context.Context, in io.Reader) io.ReadCloser {
	return piped(ctx, func() (io.ReadCloser, error) { return io.NopCloser(in), nil })
}

// piped returns a reader of the data that open provides. It calls open at the first read, in a
// goroutine, because opening and reading can block. If the goroutine is blocked when ctx ends,
// it remains until the process ends.
func piped(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	out, in := io.Pipe()
	p := &pipedReader{PipeReader: out}
	p.begin = sync.OnceFunc(func() {
		context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
		go func() {
			source, err := open()
			if err == nil {
				_, err = io.Copy(in, source)
				_ = source.Close()
			}
			_ = in.CloseWithError(err)
		}()
	})
	return p
}

type pipedReader struct {
	*io.PipeReader

	begin func()
}

func (p *pipedReader) Read(to []byte) (int, error) {
	p.begin()
	return p.PipeReader.Read(to)
}

// readNamed reads a file or pipe. It returns an error if the content exceeds the limit most, in
// bytes.
func readNamed(ctx context.Context, name string, most int64) ([]byte, error) {
	in, err := openNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

// outputs writes files at paths that a user chooses, each atomically. It reads the
// configuration to find files that it must not replace.
type outputs struct{ configFile string }

func (a *app) outputs() outputs { return outputs{a.configFile} }

func (o outputs) write(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if err := o.check(path); err != nil {
		return err
	}
	if err := files.Write(path, mode, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// check refuses to replace a database, such as a ledger, a backup or an archive. It also
// refuses every file that checkCopy refuses.
func (o outputs) check(path string) error {
	if _, err := os.Stat(path); err == nil && isSQLite(path) == nil {
		return needed(path, "a ledger, a copy of one or another SQLite database")
	}
	return o.checkCopy(path)
}

// checkCopy refuses to replace a ledger in use, an archive or a lock. It also refuses the
// configuration and files that the configuration refers to, such as a secret. It allows
// replacing other copies of a ledger.
func (o outputs) checkCopy(path string) error {
	switch name := filepath.Base(path); {
	case name == datadir.LockName:
		return needed(path, "the lock of a data directory")
	case strings.HasSuffix(name, "-wal"), strings.HasSuffix(name, "-shm"), strings.HasSuffix(name, "-journal"):
		return needed(path, "what SQLite keeps beside a database")
	case strings.HasSuffix(name, ".archive.db"):
		return needed(path, "an archive")
	case strings.HasSuffix(name, ".ledger.db") && config.Exists(filepath.Join(filepath.Dir(path), datadir.LockName)), config.Exists(path + "-wal"):
		return needed(path, "a ledger")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // nothing is replaced, because the file does not exist
	}
	names := []string{o.configFile, "perennial.yaml"}
	if c, err := config.Load(o.configFile); err == nil {
		names = append(names, c.File)
		for _, s := range c.Settings() {
			if name, ok := s.Value.(string); ok && strings.HasSuffix(s.Key, "_file") && name != "" {
				names = append(names, c.ResolvePath(name))
			}
		}
	}
	if slices.ContainsFunc(names, func(name string) bool {
		one, err := os.Stat(name)
		return err == nil && os.SameFile(info, one)
	}) {
		return needed(path, "the configuration, or a file that it names")
	}
	return nil
}

func needed(path, what string) error {
	return usage("%s is %s and is never written over\nname another file", path, what)
}
