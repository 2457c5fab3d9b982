package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
	"perennial/queue"
)

// BenchmarkDisk measures what renewals take of the disk, before and behind
// `ledger archive`: the figures of docs/operations.md. Once is enough:
//
//	go test ./cmd/perennial -run '^$' -bench Disk -benchtime 1x
func BenchmarkDisk(b *testing.B) {
	for _, size := range []int{1, 50} {
		b.Run(fmt.Sprintf("proxies=%d", size), func(b *testing.B) {
			for b.Loop() {
				newDisk(b, size).measure()
			}
		})
	}
}

// diskProxies is how many proxies are renewed.
const diskProxies = 20_000

// disk is a runner that has renewed every proxy, in commands of so many.
type disk struct {
	*testing.B

	bench bench
	c     *config.Config
	app   *app
}

func newDisk(b *testing.B, size int) *disk {
	b.Helper()
	b.Setenv("PERENNIAL_TEST_EXEC", "1") // the sandbox of the benchmark is this binary: main_test.go
	a := &app{stdout: io.Discard, stderr: io.Discard}
	d := &disk{B: b, app: a, bench: bench{app: a, kind: "renew", commands: diskProxies / 2, concurrency: 16, accounts: 1, dir: b.TempDir()}}
	_, stop, err := d.bench.startSandbox(b.Context())
	d.must(err)
	b.Cleanup(stop)
	d.must(d.bench.openClients())
	b.Cleanup(d.bench.closeClients)
	d.c = d.bench.config()
	h, err := daemon.Start(b.Context(), d.c, a.logger())
	d.must(err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	d.must(d.bench.list(ctx, h, d.bench.embeddedLoad()))
	d.renew(ctx, h, size)
	cancel()
	d.must(<-done)
	h.Close()
	return d
}

// renew publishes the commands, as a sweep would, and waits until they have ended.
func (d *disk) renew(ctx context.Context, h *daemon.Host, size int) {
	d.Helper()
	var commands []queue.Outgoing
	for n := 0; n < diskProxies; n += size {
		var ids []string
		for k := range size {
			ids = append(ids, `"`+proxyName(0, n+k)+`"`)
		}
		data := fmt.Sprintf(`{"id":"keep-2026-11-21-%06d","proxy_ids":[%s],"duration_days":30,"labels":{"team":"search"}}`, n, strings.Join(ids, ","))
		commands = append(commands, queue.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(data)})
	}
	live, err := h.Queue.Live(ctx, "bench", "renewal.completed")
	d.must(err)
	go func() { d.must(h.Queue.PublishCommands(ctx, "bench", commands)) }()
	ended := 0
	for _, err := range live {
		d.must(err)
		if ended++; ended == len(commands) {
			break
		}
	}
	d.must(h.AwaitStored(ctx))
}

func (d *disk) must(err error) {
	if err != nil {
		d.Helper()
		d.Error(err)
		panic(err)
	}
}

// per reports bytes for each proxy.
func (d *disk) per(bytes int64, unit string) {
	d.ReportMetric(float64(bytes)/diskProxies, unit)
}

func (d *disk) measure() {
	d.Helper()
	before := d.rebuilt("before")
	d.per(before, "ledger-B/proxy")
	d.per(d.size(d.c.LedgerPath("bench"))-before, "listing-B/proxy")
	head := d.head()
	later := time.Now().Add(30 * 24 * time.Hour)
	out, err := ledger.Archive{Path: d.c.LedgerPath("bench"), Before: later.Add(-10 * 24 * time.Hour), Clock: func() time.Time { return later }, Published: head, Keep: 1}.Run(d.Context())
	d.must(err)
	h := &history{account: "bench", confirm: func(context.Context) error { return nil }}
	d.must(h.serve(d.c, d.app))
	events, err := bounding{history: h, account: "bench", replicas: 1, log: d.app.logger()}.run(d.Context(), d.c.LedgerPath("bench"))
	h.close()
	d.must(err)
	d.per(d.rebuilt("after"), "ledger-after-B/proxy")
	d.per(int64(events.BytesBefore), "events-B/proxy")
	d.per(int64(events.BytesAfter), "events-after-B/proxy")
	d.per(d.stored("OBJ_"+queue.SnapshotsBucket("bench")), "snapshot-B/proxy")
	d.per(d.size(out.File), "archive-B/proxy")
}

func (d *disk) size(file string) int64 {
	info, err := os.Stat(file)
	d.must(err)
	return info.Size()
}

// open runs do on the ledger, behind its runner.
func (d *disk) open(do func(*ledger.Ledger) error) {
	d.Helper()
	l, err := ledger.Open(d.Context(), ledger.Config{Path: d.c.LedgerPath("bench"), Clock: time.Now, ReadOnly: true})
	d.must(err)
	d.must(errors.Join(do(l), l.Close()))
}

func (d *disk) head() (h ledger.Head) {
	d.open(func(l *ledger.Ledger) (err error) { h.Seq, h.Hash, err = l.Head(d.Context()); return err })
	return h
}

// rebuilt is the size of the ledger without its cache of the provider's listings.
func (d *disk) rebuilt(name string) int64 {
	path := filepath.Join(d.bench.dir, name+".db")
	d.open(func(l *ledger.Ledger) error { _, err := l.Rebuild(d.Context(), path); return err })
	return d.size(path)
}

// stored is what a stream takes of the disk.
func (d *disk) stored(stream string) (bytes int64) {
	dir := filepath.Join(d.c.DataDir, "nats", "jetstream", "$G", "streams", stream)
	d.must(filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}
