// Package compose checks docker-compose.yml with the loader of Docker Compose itself, and
// that what it mounts, and what reads its metrics, fits together.
package compose

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

const root = "../../.."

// project is docker-compose.yml as Docker Compose reads it: what it does not know is an
// error.
func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(root, "docker-compose.yml")}},
	}, func(o *loader.Options) { o.SetProjectName("perennial", true) })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestComposeReadsItsFile: images by digest or built here, ports on loopback, bounds on
// memory and CPU, and every file that is mounted is there.
func TestComposeReadsItsFile(t *testing.T) {
	p := project(t)
	byDigest := regexp.MustCompile(`^[a-z/]+:[0-9a-z.-]+@sha256:[0-9a-f]{64}$`)
	for name, s := range p.Services {
		if s.Build == nil && !byDigest.MatchString(s.Image) {
			t.Errorf("%s: image %s has no tag with a digest", name, s.Image)
		}
		if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes < 64<<20 || s.Deploy.Resources.Limits.NanoCPUs <= 0 {
			t.Errorf("%s has no bounds of memory and CPU", name)
		}
		if s.Restart == "" {
			t.Errorf("%s does not say when it is started again", name)
		}
		for _, port := range s.Ports {
			if !net.ParseIP(port.HostIP).IsLoopback() {
				t.Errorf("%s: port %s is published on %q", name, port.Published, port.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if info, err := os.Stat(v.Source); err != nil || !info.Mode().IsRegular() || !v.ReadOnly {
				t.Errorf("%s mounts %s: %v, read-only: %t", name, v.Source, err, v.ReadOnly)
			}
		}
	}
	for _, want := range []string{"nats-1", "nats-2", "nats-3", "sandbox", "runner", "runner-2", "runner-3", "prometheus", "grafana"} {
		if _, ok := p.Services[want]; !ok {
			t.Errorf("there is no service %s", want)
		}
	}
}

// read decodes a YAML file of this directory; a key that the type does not have is an
// error.
func read(t *testing.T, file string, into any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestPrometheusScrapesTheRunners: each runner's HTTP port is a target, at the service
// whose network it shares.
func TestPrometheusScrapesTheRunners(t *testing.T) {
	p := project(t)
	var config struct {
		Global        map[string]string `yaml:"global"`
		RuleFiles     []string          `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			StaticConfigs []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	read(t, "prometheus.yaml", &config)
	targets := config.ScrapeConfigs[0].StaticConfigs[0].Targets
	var want []string
	for _, port := range p.Services["sandbox"].Ports {
		want = append(want, "sandbox:"+port.Published)
	}
	slices.Sort(want)
	if !slices.Equal(targets, want) {
		t.Errorf("targets %v and not %v", targets, want)
	}
	if !slices.ContainsFunc(p.Services["prometheus"].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == config.RuleFiles[0] }) {
		t.Errorf("%v is not mounted", config.RuleFiles)
	}
}

// TestGrafanaHasTheDashboardAndItsData: the source is Prometheus, the dashboard is where
// the provider looks, and it is the page that is shown first.
func TestGrafanaHasTheDashboardAndItsData(t *testing.T) {
	grafana := project(t).Services["grafana"]
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
			Editable                     bool
		}
	}
	read(t, "datasources.yaml", &sources)
	if s := sources.Datasources[0]; s.Type != "prometheus" || s.URL != "http://prometheus:9090" || !s.IsDefault {
		t.Errorf("%+v", s)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type     string
			AllowUIUpdates bool `yaml:"allowUiUpdates"`
			Options        struct{ Path string }
		}
	}
	read(t, "dashboards.yaml", &providers)
	home := *grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if filepath.Dir(home) != providers.Providers[0].Options.Path {
		t.Errorf("%s is not in %s", home, providers.Providers[0].Options.Path)
	}
	var dashboard struct{ Title string }
	for _, v := range grafana.Volumes {
		if v.Target != home {
			continue
		}
		text, err := os.ReadFile(v.Source)
		if err == nil {
			err = json.Unmarshal(text, &dashboard)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(dashboard.Title, "Perennial") {
		t.Errorf("the dashboard is %q", dashboard.Title)
	}
}

// TestTheProgramUnderstandsTheRunnersConfiguration, which is mounted into each of them.
func TestTheProgramUnderstandsTheRunnersConfiguration(t *testing.T) {
	p := project(t)
	for _, name := range []string{"runner", "runner-2", "runner-3"} {
		at := slices.IndexFunc(p.Services[name].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == p.Services[name].Command[2] })
		if at < 0 {
			t.Fatalf("%s: %s is not mounted", name, p.Services[name].Command[2])
		}
		file, err := filepath.Abs(p.Services[name].Volumes[at].Source)
		if err != nil {
			t.Fatal(err)
		}
		show := exec.CommandContext(t.Context(), "go", "run", "./cmd/perennial", "--config", file, "config", "show", "-o", "json")
		show.Dir = root
		if out, err := show.CombinedOutput(); err != nil || !strings.Contains(string(out), `"nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222"`) {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}
