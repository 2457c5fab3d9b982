// Package kubernetes checks the manifests beside it against the API's own types, and
// their configuration against the program.
package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// read decodes every document strictly: an unknown or repeated field is an error.
func read(t *testing.T) map[string]runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	text, err := os.ReadFile("perennial.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]runtime.Object{}
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, 1<<20)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		object, kind, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if all[kind.Kind] != nil {
			t.Fatalf("%s is there twice", kind.Kind)
		}
		all[kind.Kind] = object
	}
}

func TestTheManifestsFitTogether(t *testing.T) {
	all := read(t)
	set := all["StatefulSet"].(*appsv1.StatefulSet)
	config := all["ConfigMap"].(*corev1.ConfigMap)
	service := all["Service"].(*corev1.Service)
	pod := labels.Set(set.Spec.Template.Labels)
	selectors := map[string]*metav1.LabelSelector{
		"StatefulSet": set.Spec.Selector, "PodDisruptionBudget": all["PodDisruptionBudget"].(*policyv1.PodDisruptionBudget).Spec.Selector,
		"NetworkPolicy": &all["NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.PodSelector, "Service": {MatchLabels: service.Spec.Selector},
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(pod) {
			t.Errorf("%s does not select the pods: %v %v", name, selector, err)
		}
	}
	if set.Spec.ServiceName != service.Name || set.Namespace != service.Namespace || config.Namespace != set.Namespace {
		t.Error("names or namespaces differ")
	}
	container := set.Spec.Template.Spec.Containers[0]
	port := container.Ports[0]
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
		want := "/livez"
		if name == "readiness" {
			want = "/readyz"
		}
		if probe.HTTPGet.Path != want || probe.HTTPGet.Port.String() != port.Name {
			t.Errorf("the %s probe asks for %s at %s", name, probe.HTTPGet.Path, probe.HTTPGet.Port.String())
		}
	}
	volumes := map[string]bool{set.Spec.VolumeClaimTemplates[0].Name: true}
	for _, v := range set.Spec.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("the volume %s is not there", m.Name)
		}
		mounts[m.Name] = m.MountPath
	}
	if len(mounts) != len(volumes) {
		t.Errorf("of the volumes %v the mounts are %v", volumes, mounts)
	}
	if file := container.Args[2]; filepath.Dir(file) != mounts["config"] || config.Data[filepath.Base(file)] == "" {
		t.Errorf("%s is not in the ConfigMap", file)
	}
	for _, path := range []string{"secret_file: " + mounts["secrets"] + "/", "creds_file: " + mounts["secrets"] + "/", "data_dir: " + mounts["data"] + "/"} {
		if !strings.Contains(config.Data["perennial.yaml"], path) {
			t.Errorf("the configuration has no %s…", path)
		}
	}
}

// TestThePodsAreClosed: no root, no capability, no writable root, memory limits.
func TestThePodsAreClosed(t *testing.T) {
	spec := read(t)["StatefulSet"].(*appsv1.StatefulSet).Spec.Template.Spec
	yes, no := true, false
	container := spec.Containers[0]
	want := &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	if !equality.Semantic.DeepEqual(container.SecurityContext, want) || !*spec.SecurityContext.RunAsNonRoot || spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *spec.AutomountServiceAccountToken {
		t.Errorf("%+v %+v", container.SecurityContext, spec.SecurityContext)
	}
	if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
		t.Error("no limit of memory, or no request of CPU")
	}
	if *spec.TerminationGracePeriodSeconds < 45 { // 30 seconds of requests, 10 of events
		t.Error("the pod is killed while it stops")
	}
}

// TestTheProgramUnderstandsTheConfiguration of the ConfigMap.
func TestTheProgramUnderstandsTheConfiguration(t *testing.T) {
	text := read(t)["ConfigMap"].(*corev1.ConfigMap).Data["perennial.yaml"]
	file := filepath.Join(t.TempDir(), "perennial.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "run", "./cmd/perennial", "--config", file, "config", "show", "-o", "json")
	run.Dir = filepath.Join("..", "..", "..")
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	settings := map[string]any{}
	for line := range bytes.Lines(out) {
		var s struct {
			Key   string `json:"key"`
			Value any    `json:"value"`
		}
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		settings[s.Key] = s.Value
	}
	if settings["data_dir"] != "/var/lib/perennial/data" || settings["accounts.main.replicas"] != 3.0 {
		t.Errorf("%v", settings)
	}
}
