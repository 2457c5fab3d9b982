package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"perennial/cmd/perennial/internal/web"
)

// HTTP configures the server for health checks, metrics and the web UI.
type HTTP struct {
	Listen           string   `yaml:"listen" default:"127.0.0.1:8080" doc:"address for health, metrics and the web UI"`
	Hosts            []string `yaml:"hosts" doc:"host names that the web UI answers to, in addition to IP addresses and names without a dot"`
	TokensFile       string   `yaml:"tokens_file" doc:"file with hashes of the tokens that sign people in to the web UI ([web.md](web.md)); mode 0600"`
	MetricsTokenFile string   `yaml:"metrics_token_file" doc:"file with the token that /metrics requires ([monitor.md](monitor.md)), mode 0600; empty: no token is required"`
	Identity         Identity `yaml:"identity"`
}

// ServesHost reports whether a request with this Host header is served. The host must be an
// IP address, a configured name, or a name without a dot, which cannot be a public name.
func (c HTTP) ServesHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if net.ParseIP(host) != nil || host != "" && !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc(c.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// Identity configures the header in which a proxy passes the signed-in person's name.
type Identity struct {
	Header  string   `yaml:"header" doc:"header with the person's name from the reverse proxy, such as X-Auth-Request-Email ([web.md](web.md)); empty: none"`
	Trusted []string `yaml:"trusted" doc:"address ranges of the reverse proxy, such as 10.0.0.7/32; from others the header is ignored"`
	People  []Person `yaml:"people"`
}

// Person is a person who may sign in through the header, with their role.
type Person struct {
	Name     string   `yaml:"name" absent:"required" doc:"name of the person, exactly as in the header"`
	Role     string   `yaml:"role" absent:"required" doc:"viewer or operator"`
	Accounts []string `yaml:"accounts" absent:"all" doc:"accounts that the person sees"`
}

// OfPages converts the identity for the web UI. It returns an error if no person could sign in, or
// if any client could forge the header. The error begins with the path of the invalid key.
func (i Identity) OfPages() (web.Identity, error) {
	people := make([]web.Person, 0, len(i.People))
	for _, p := range i.People {
		people = append(people, web.Person{Name: p.Name, Role: web.Role(p.Role), Accounts: p.Accounts})
	}
	identity, err := web.NewIdentity(i.Header, i.Trusted, people)
	if err != nil {
		return identity, fmt.Errorf("http.identity.%w", err)
	}
	return identity, nil
}

// Tracing configures where OpenTelemetry traces are sent. Without an endpoint, no traces are
// sent.
type Tracing struct {
	// A path in Endpoint replaces /v1/traces. OpenTelemetry's own environment variables, such
	// as OTEL_EXPORTER_OTLP_ENDPOINT, supply settings that are absent here, and headers with
	// credentials.
	Endpoint string `yaml:"endpoint" doc:"an OTLP receiver over HTTP, such as http://127.0.0.1:4318 ([monitor.md](monitor.md#traces)); empty: no traces"`
	// For a command with a trace context, the publisher's sampling decision applies instead.
	Sample *float64 `yaml:"sample" default:"1" min:"0" max:"1" doc:"share of the commands without a trace context whose traces are sent"`
}

// endpointVariables supply the endpoint if the file has none (OpenTelemetry Protocol
// Exporter, Configuration Options).
var endpointVariables = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// On reports whether traces are sent.
func (t Tracing) On() bool {
	for _, name := range endpointVariables {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return t.Endpoint != ""
}

func (t Tracing) validate() error {
	if t.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(t.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("tracing.endpoint is no address: it is the URL of an OTLP receiver over HTTP, such as http://127.0.0.1:4318")
	case u.User != nil:
		return errors.New("tracing.endpoint has a user in it, and this file holds no secrets: set OTEL_EXPORTER_OTLP_HEADERS in the environment, such as authorization=Basic%20…")
	}
	return nil
}
