package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/bench"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/publish"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// BenchmarkDisk measures the disk space that renewals take before and after `backup archive`: the
// figures of docs/archive.md. One iteration is enough:
//
//	go test ./cmd/perennial/internal/cli -run '^$' -bench Disk -benchtime 1x
func BenchmarkDisk(b *testing.B) {
	for _, size := range []int{1, 50} {
		b.Run(fmt.Sprintf("proxies=%d", size), func(b *testing.B) {
			for b.Loop() {
				newDisk(b, size).measure()
			}
		})
	}
}

const diskProxies = 20_000

// disk is a runner that has renewed every proxy.
type disk struct {
	*testing.B

	c   *config.Config
	app *app
}

func newDisk(b *testing.B, size int) *disk {
	b.Helper()
	a := &app{stdout: io.Discard, stderr: io.Discard}
	d := &disk{B: b, app: a}
	fixture := sandbox.DefaultFixture()
	fixture.Accounts[0].Wallet.SandboxCents = diskProxies * 1000
	fixture.Proxies = []sandbox.FixtureProxy{{
		Count: diskProxies, Prefix: "px_", AccountID: fixture.Accounts[0].AccountID, Environment: "sandbox", OfferCode: fixture.Offers[0].OfferCode, ExpiresIn: "24h..240h",
	}}
	box, err := sandbox.Start(b.Context(), sandbox.Options{Fixture: fixture, ChargesNoSync: true, Clock: time.Now})
	d.must(err)
	b.Cleanup(func() { d.must(box.Close()) })
	account := upstream.Config{BaseURL: box.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, Clock: time.Now}
	client, err := upstream.New(account)
	d.must(err)
	b.Cleanup(client.Close)
	d.c = &config.Config{DataDir: b.TempDir(), NATS: config.NATS{Listen: "127.0.0.1:0"}, HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Accounts: map[string]*config.Account{
		"bench": {BaseURL: account.BaseURL, AppID: account.AppID, Secret: account.Secret, RatePerSecond: 1e6, Concurrency: 16, Location: time.UTC, Replicas: 1},
	}}
	d.c.Defaults()
	h, err := daemon.Start(b.Context(), d.c, a.logger())
	d.must(err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	d.must(bench.List(ctx, client, h.Accounts[0].Ledger()))
	d.renew(ctx, h, size)
	cancel()
	d.must(<-done)
	h.Close()
	return d
}

// renew publishes the commands, as a sweep would, and waits until they have ended.
func (d *disk) renew(ctx context.Context, h *daemon.Host, size int) {
	d.Helper()
	var commands []publish.Outgoing
	for n := 0; n < diskProxies; n += size {
		var ids []string
		for k := range size {
			ids = append(ids, `"`+"px_"+strconv.Itoa(n+k+1)+`"`)
		}
		data := fmt.Sprintf(`{"id":"keep-2026-11-21-%06d","proxy_ids":[%s],"duration_days":30,"labels":{"team":"search"}}`, n, strings.Join(ids, ","))
		commands = append(commands, publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(data)})
	}
	live, err := events.Of(h.Queue.JetStream(), "bench").Live(ctx, "renewal.completed")
	d.must(err)
	go func() { d.must(publish.New(h.Queue.JetStream()).PublishCommands(ctx, "bench", commands)) }()
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
	d.must(h.open(d.c, d.app, false))
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

// open runs do on the ledger after its runner has stopped.
func (d *disk) open(do func(*ledger.Ledger) error) {
	d.Helper()
	l, err := ledger.Open(d.Context(), ledger.Config{Path: d.c.LedgerPath("bench"), Clock: time.Now, ReadOnly: true})
	d.must(err)
	d.must(errors.Join(do(l), l.Close()))
}

func (d *disk) head() (h chain.Head) {
	d.open(func(l *ledger.Ledger) (err error) { h.Seq, h.Hash, err = l.Head(d.Context()); return err })
	return h
}

// rebuilt returns the size of the ledger without its cache of the provider's listings.
func (d *disk) rebuilt(name string) int64 {
	path := filepath.Join(d.TempDir(), name+".db")
	d.open(func(l *ledger.Ledger) error { _, err := l.Rebuild(d.Context(), path); return err })
	return d.size(path)
}

// stored returns a stream's size on disk.
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
