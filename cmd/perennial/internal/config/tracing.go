// The export of traces.

package config

import (
	"errors"
	"net/url"
	"os"
)

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
