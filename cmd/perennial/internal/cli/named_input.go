// Input files that are read once and may be pipes, such as /dev/stdin or a shell's <(…). A
// pipe may never deliver data, so reading also ends when the command's context ends, for
// example after a signal.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// openNamed opens a file or a pipe. Reading a pipe fails when ctx ends.
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
// goroutine, because opening and reading may block. If the goroutine is blocked when ctx ends,
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

// Read implements io.Reader.
func (p *pipedReader) Read(to []byte) (int, error) {
	p.begin()
	return p.PipeReader.Read(to)
}

// readNamed reads a file or pipe. It returns an error if there are more than most bytes.
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
