//go:build check

package crashtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
)

// The test runs docs/nats.md, "A cluster of three, from nothing", line by line: three servers, two
// runners, the doctor, and a renewal before and after a server is killed.
func TestTheClusterOfTheDocumentWorks(t *testing.T) {
	t.Parallel()
	d := newNATSDocument(t)
	scripts := d.blocks("sh")
	if len(scripts) != 3 {
		t.Fatalf("the section has %d scripts", len(scripts))
	}
	d.does(scripts[0])
	for line := range strings.Lines(scripts[1]) {
		switch line = strings.TrimSpace(line); {
		case strings.Contains(line, "perennial run"):
			d.runners(line)
		case strings.Contains(line, "exec "):
			d.begins(line)
		default:
			await(t, line+" is well", func() bool { _, code := d.shell(line); return code == cli.ExitDone })
		}
	}
	doctor := func(says string) {
		await(t, "the doctor says "+says, func() bool {
			out, code := d.shell("perennial doctor --config /etc/perennial/perennial.yaml")
			return code == cli.ExitDone && strings.Contains(out, says)
		})
	}
	for line := range strings.Lines(d.blocks("text")[0]) {
		doctor(strings.TrimSpace(line))
	}
	d.noWarnings()
	d.does(scripts[2])
	doctor("its copy on nats-1")
	checkReferee(t, d.w.charges)
}

// The doctor waits a while for the cluster's JetStream leader. If none is elected, it says what is
// missing.
func TestTheDoctorWaitsForALeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := newNATSProcess(t, w)
	w.configure(n.url(), "")
	n.startAs(`server_name: n1
authorization {user: run, password: pw}
cluster {name: c, listen: "127.0.0.1:-1", routes: ["nats://` + freeAddress(t) + `"]}`)
	out, errs, code := w.cli("doctor")
	if code != cli.ExitFailed || !strings.Contains(errs, "waiting 8s at most") || !strings.Contains(out, "NOT OK  jetstream") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// natsDocument is that section of docs/nats.md, adapted to one machine.
type natsDocument struct {
	w       *world
	section string
	here    *strings.Replacer // addresses and directories
	runs    []*process
}

func newNATSDocument(t testing.TB) *natsDocument {
	t.Helper()
	d := &natsDocument{w: newWorld(t, 4), section: natsSections(t)[natsFromNothing]}
	dir := d.w.dir
	replaced := []string{
		"/etc/nats/", dir + "/nats/", "/etc/perennial/", dir + "/etc/", "/var/lib/", dir + "/var/", "/run/", dir + "/run/",
		"https://api.example.com", d.w.sandbox.Sandbox, "live_app_1234", worldAppID, "127.0.0.1:8080", "127.0.0.1:0",
	}
	for n := 1; n <= 3; n++ {
		for _, port := range []int{4222, 6222} {
			replaced = append(replaced, fmt.Sprintf("10.0.0.%d:%d", n, port), freeAddress(t))
		}
	}
	d.here = strings.NewReplacer(replaced...)
	for _, name := range []string{"nats", "etc", "etc/second", "var", "run", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range natsFiles.FindAllStringSubmatch(d.section, -1) {
		text := d.here.Replace(file[2])
		if file[1] != "perennial.yaml" {
			d.w.write("nats/"+file[1], text, 0o600)
			continue
		}
		d.w.write("etc/perennial.yaml", text, 0o600)
		d.w.write("etc/second/perennial.yaml", strings.Replace(text, "/var/perennial", "/var/second", 1), 0o600)
	}
	d.w.write("etc/main.secret", worldSecret, 0o600)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, as := range map[string]string{"perennial": "1", "nats-server": execNATS} {
		d.w.write("bin/"+name, fmt.Sprintf("#!/bin/sh\n%s=%s exec %q \"$@\"\n", execVariable, as, self), 0o700)
	}
	return d
}

// blocks returns the section's code blocks in one language.
func (d *natsDocument) blocks(language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(d.section, -1) {
		all = append(all, m[1])
	}
	return all
}

func (d *natsDocument) path() string {
	return "PATH=" + filepath.Join(d.w.dir, "bin") + ":" + os.Getenv("PATH")
}

func (d *natsDocument) shell(script string) (out string, code int) {
	ctx, cancel := context.WithTimeout(d.w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", d.here.Replace(script))
	cmd.Dir, cmd.Env = d.w.dir, append(os.Environ(), d.path())
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// does runs a script that must succeed.
func (d *natsDocument) does(script string) {
	d.w.t.Helper()
	if out, code := d.shell(script); code != 0 {
		d.w.t.Fatalf("exit %d\n%s\n%s", code, script, out)
	}
}

// begins starts a command that keeps running.
func (d *natsDocument) begins(line string) *process {
	d.w.t.Helper()
	return startProgram(d.w.t, "/bin/sh", d.w.dir, []string{d.path()}, "-ec", d.here.Replace(line))
}

// runners starts both runners and waits until each is ready.
func (d *natsDocument) runners(line string) {
	d.w.t.Helper()
	for _, config := range []string{"/etc/perennial/perennial.yaml", "/etc/perennial/second/perennial.yaml"} {
		var is daemon.ReadyLine
		run := d.begins(strings.Replace(line, "/etc/perennial/perennial.yaml", config, 1))
		run.ready(&is)
		d.w.readySays(is, ready)
		d.runs = append(d.runs, run)
	}
}

// noWarnings checks that the runners logged no warning and no error.
func (d *natsDocument) noWarnings() {
	d.w.t.Helper()
	for _, run := range d.runs {
		for line := range strings.Lines(run.stderr.String()) {
			if !strings.Contains(line, `"level":"info"`) {
				d.w.t.Errorf("a healthy first start logs %s", line)
			}
		}
	}
}
