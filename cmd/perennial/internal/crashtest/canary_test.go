package crashtest

import (
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/upstream"
)

// canaries maps each text that must not leak to its name.
type canaries map[string]string

// add adds a secret in every encoding in which it could leak.
func (c canaries) add(name, secret string) {
	c[secret] = name
	c[url.QueryEscape(secret)] = name + ", URL-encoded"
	c[url.PathEscape(secret)] = name + ", URL-encoded"
	c[hex.EncodeToString([]byte(secret))] = name + ", hexadecimal"
	c[strings.ToUpper(hex.EncodeToString([]byte(secret)))] = name + ", hexadecimal"
	for before := range 3 { // base64 differs by the secret's offset in a longer text
		bits := 8 * (before + len(secret))
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte("...."[:before] + secret + "..."))
			c[text[(8*before+5)/6:bits/6]] = name + ", base64"
		}
	}
}

// proxy adds the credentials that the sandbox gives a proxy.
func (c canaries) proxy(id string) {
	c.add("the username of "+id, "user-"+id)
	c.add("the password of "+id, "pass-"+id+"-secret")
}

func (c canaries) seek(t testing.TB, where, text string) {
	t.Helper()
	for canary, name := range c {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s holds %s: …%q…", where, name, text[max(0, at-80):min(len(text), at+len(canary)+40)])
		}
	}
}

func (c canaries) seekIn(t testing.TB, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		c.seek(t, path, string(text))
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files in %s: %v", files, dir, err)
	}
}

// seekInTables reads every cell, because the file may hold a long text in several pieces.
func (c canaries) seekInTables(t testing.TB, file string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) < 10 {
		t.Fatalf("%v %v", names, err)
	}
	for _, name := range names {
		c.seekInTable(t, db, name)
	}
}

func (c canaries) seekInTable(t testing.TB, db *sql.DB, name string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT * FROM "`+name+`"`) //nolint:unqueryvet // every column of it is looked at
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, _ := rows.Columns()
	cells, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, cell := range cells {
			if text, ok := cell.([]byte); ok {
				cell = string(text)
			}
			c.seek(t, name+"."+columns[i], fmt.Sprint(cell))
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

const canaryConnection = "px_1.proxy.invalid:1080:user-px_1:pass-px_1-secret"

// spilling returns replies with credentials in the wrong places, one for each quantity of an order,
// and the state in which each order ends.
func spilling() (scripts []*script, ends map[int]string) {
	const uri = "socks5://user-px_1:pass-px_1-secret@px_1.proxy.invalid:1080"
	ends = map[int]string{1: "delivered", 2: "delivered"}
	for i, c := range []struct {
		end   string
		steps []spoil
	}{
		{"delivered", []spoil{{executed: true, raw: func(reply string) string { return reply + "\r\n\r\n" }}}},
		{"delivered", []spoil{{executed: true, raw: func(reply string) string { return "HTTP/1.1 200 OK\r\n" + reply + "\r\n\r\n" }}}},
		{"delivered", []spoil{{executed: true, raw: func(reply string) string {
			return fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply[:len(reply)-9])
		}}}},
		{"delivered", []spoil{{executed: true, raw: func(reply string) string {
			return fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s%s", len(reply), reply, canaryConnection)
		}}}},
		{"delivered", []spoil{{executed: true, status: http.StatusFound, header: "Location: " + uri}}},
		{"delivered", []spoil{{executed: true, body: `{"success":true,"code":"ok","data":{"proxies":[{"connection":"` + canaryConnection + `"}]`}}},
		{"delivered", []spoil{{executed: true, body: `{"success":true,"code":"ok","data":{"proxies":[{"socks5_uri":"` + uri + `"}]}}`}}},
		{"delivered", []spoil{{status: http.StatusUnauthorized, body: "<html>" + uri + "</html>"}}},
		{"delivered", []spoil{{status: http.StatusForbidden, body: "<html>" + canaryConnection + "</html>"}}},
		{"delivered", []spoil{{status: http.StatusForbidden, body: failure("insufficient_scope", "not for "+canaryConnection)}}},
		{"delivered", []spoil{{status: http.StatusUnauthorized, body: failure("invalid_signature", "of "+uri)}}},
		{"rejected", []spoil{{status: http.StatusUnprocessableEntity, body: failure("validation_error", uri+" is in use")}}},
		{"review", []spoil{{status: http.StatusServiceUnavailable, body: failure("proxy_endpoint_unavailable", "no route to "+canaryConnection)}}},
		{"review", []spoil{{status: http.StatusConflict, body: failure(uri, "a code of tomorrow")}}},
	} {
		scripts = append(scripts, &script{method: http.MethodPost, holds: fmt.Sprintf(`"quantity":%d}`, i+3), steps: c.steps})
		ends[i+3] = c.end
	}
	return append(scripts,
		&script{method: http.MethodGet, holds: "/api/v1/orders/", steps: []spoil{{status: http.StatusServiceUnavailable, body: failure("proxy_endpoint_unavailable", uri)}}},
		&script{method: http.MethodGet, holds: "/api/v1/proxies/px_4", steps: []spoil{{status: http.StatusServiceUnavailable, body: failure("proxy_endpoint_unavailable", uri)}}},
		&script{method: http.MethodPost, holds: `"px_3"`, steps: []spoil{{executed: true, raw: func(string) string { return "HTTP/1.1 " + uri + "\r\n\r\n" }}}},
	), ends
}

// A runner that logs everything orders, renews and fails in every way in which the provider reveals
// too much. Afterwards neither the API Secret nor any proxy's credentials are found anywhere.
func TestTrap41NothingSecretLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	scripts, ends := spilling()
	w.spoiled(scripts...)
	w.configure("", "schedules: [{name: yearly, cron: '0 0 1 1 *', renew_before: 1h, duration_days: 30}]\n") // an account with a schedule lists its proxies
	run := start(t, w.dir, "run", "-v")
	var line daemon.ReadyLine
	run.ready(&line)
	c := crashed{{id: "r1", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"r1","proxy_ids":["px_2"],"duration_days":30}`)},
		{id: "r2", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"r2","proxy_ids":["px_3"],"duration_days":30}`)}}
	for quantity := range ends {
		more := ""
		if quantity == 2 {
			more = `,"sandbox_scenario":"success"`
		}
		id := fmt.Sprintf("o%d", quantity)
		c = append(c, published{id: id, subject: "perennial.commands.main.order.create",
			body: fmt.Appendf(nil, `{"id":%q,"duration_days":30,"items":[{"offer_code":"off_us_1","quantity":%d}]%s}`, id, quantity, more)})
	}
	c.publish(t, line.NATS)
	for id, status := range w.ends(line.NATS, c.ids()...) {
		want := "completed"
		if quantity, err := strconv.Atoi(id[1:]); id[0] == 'o' && err == nil {
			want = ends[quantity]
		}
		if status.State != want {
			t.Errorf("%s is %s, not %s: %s", id, status.State, want, status.Reason)
		}
	}
	secrets := w.canaries()
	w.reveals(secrets, line)
	secrets.seekInProcess(t, run)
	w.seekInAnswers(secrets, line)
	_ = run.cmd.Process.Signal(syscall.SIGQUIT) // the output of a panic: every goroutine's stack
	if run.wait(); !strings.Contains(run.stderr.String(), "goroutine ") {
		t.Errorf("there is no stack in\n%s", run.stderr)
	}
	if !strings.Contains(run.stderr.String(), "Unsolicited response") {
		t.Error("a reply with something behind its end was to be among them")
	}
	secrets.seek(t, "the log", run.stderr.String())
	w.mustCLI("ledger", "backup", "data/backup.db")
	secrets.seekInTables(t, w.ledgerFile())
	secrets.seekIn(t, filepath.Join(w.dir, "data"))
	run, line = w.run() // publishes what the killed run could not; an order may still be paused
	waitForHTTP(t, line.HTTP+"/readyz?verbose", `{"name":"events","ok":true`)
	run.terminate()
	archived := w.archiveAll()
	secrets.seekInTables(t, archived.File)
	secrets.seekIn(t, filepath.Join(w.dir, "data"))
}

// canaries collects the secrets of the world as their owner would.
func (w *world) canaries() canaries {
	w.t.Helper()
	client, err := upstream.New(upstream.Config{BaseURL: w.sandbox.Sandbox, AppID: worldAppID, Secret: worldSecret})
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	c := canaries{}
	c.add("the API Secret", worldSecret)
	n := 0
	for page, err := range client.Proxies(w.t.Context(), 200) {
		if err != nil {
			w.t.Fatal(err)
		}
		c.proxy(page.ProxyID)
		n++
	}
	shown, err := client.Reveal(w.t.Context(), "px_1")
	if err != nil || n < 50 || c[shown.Username()] == "" || c[shown.Password()] == "" || shown.Connection() != canaryConnection {
		w.t.Fatalf("%d proxies, and these are not the sandbox's credentials: %v", n, err)
	}
	return c
}

// seekInProcess searches what every user of the machine can see of a process.
func (c canaries) seekInProcess(t testing.TB, p *process) {
	t.Helper()
	own := fmt.Sprint(p.cmd.Process.Pid)
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	pids := []string{own}
	for _, file := range stats {
		text, _ := os.ReadFile(file) // it may have ended
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == own {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	for _, pid := range pids {
		for _, name := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile("/proc/" + pid + "/" + name)
			if err != nil || len(text) == 0 {
				t.Errorf("/proc/%s/%s: %d bytes, %v", pid, name, len(text), err)
			}
			c.seek(t, name, string(text))
		}
	}
}

// seekInAnswers runs every command and request that returns something.
func (w *world) seekInAnswers(c canaries, line daemon.ReadyLine) {
	w.t.Helper()
	b := w.browser()
	for _, path := range []string{
		"/", "/metrics", "/readyz", "/livez", "/nothing", "/debug/pprof/", "/a/main/operations", "/a/main/operation?id=o1", "/a/main/operation?id=o15", "/a/main/reviews",
		"/a/main/schedules", "/a/main/proxies", "/a/main/proxy?id=px_1", "/a/main/money", "/a/main/log", "/a/main/dead", "/runners",
	} {
		text, _, err := ask(b, line.HTTP+path, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		c.seek(w.t, path, text)
	}
	for _, args := range []string{
		"status", "status o1", "status o2 -o json", "status o3 -o json", "status o14 -o json", "review list", "review show o15 -o json", "review list -o json", "account show", "account show -o json",
		"ledger entries -n 1000", "ledger entries -n 1000 -o json", "ledger export --format csv", "ledger export --format jsonl", "ledger export --format beancount",
		"ledger statement", "ledger statement --format html", "ledger statement -o json", "ledger reconcile -o json", "ledger verify --against-events", "ledger balance -o json",
		"orders -o json", "proxies list", "proxies list -o json", "proxies get px_1", "proxies get px_1 -o json", "wallet -o json", "offers -o json", "doctor -v", "dead list", "sweep list",
		"renew px_1 --id o1 --days 30 -v", "ledger restore --from nothing.db -v", "run -v", "nonsense",
	} {
		out, errs, _ := w.cli(strings.Fields(args)...)
		if out+errs == "" {
			w.t.Errorf("%s says nothing", args)
		}
		c.seek(w.t, args, out+errs)
	}
	events := w.published(line)
	if len(events) < 30 {
		w.t.Errorf("only %d events", len(events))
	}
	for _, m := range events {
		c.seek(w.t, "an event", m.Subject+fmt.Sprint(m.Header)+string(m.Data))
	}
}

// published returns the events as a subscriber receives them.
func (w *world) published(line daemon.ReadyLine) (all []*jetstream.RawStreamMsg) {
	w.t.Helper()
	nc, js := connectTo(w.t, line.NATS)
	defer nc.Close()
	stream, err := js.Stream(w.t.Context(), "PERENNIAL_EVENTS_main")
	if err != nil {
		w.t.Fatal(err)
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := stream.GetMsg(w.t.Context(), seq)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}
