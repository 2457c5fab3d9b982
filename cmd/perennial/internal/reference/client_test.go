// Tests of the frozen client: it pays what it reports, and its source does not change.
package reference

import (
	"crypto/sha256"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/upstream/sandbox"
)

// frozen is the SHA-256 of client.go. A change of client.go makes the figures of all earlier
// versions incomparable: see the package's comment.
const frozen = "bfafbe1561ec452388cd8cd74b043e95816571a5a41b50c897d1055b1afeab6c"

func TestTheReferenceStaysAsItIs(t *testing.T) {
	text, err := os.ReadFile("client.go")
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(text)); sum != frozen {
		t.Errorf("client.go has changed, to %s: figures of `bench` no longer compare with those of earlier versions", sum)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "client.go", text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range file.Imports {
		if strings.ContainsAny(i.Path.Value, ".") || strings.Contains(i.Path.Value, "perennial") {
			t.Errorf("it imports %s: the standard library is all it may use", i.Path.Value)
		}
	}
}

func TestTheReferencePaysOnceForEachRequest(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	box, err := sandbox.Start(t.Context(), sandbox.Options{Fixture: sandbox.DefaultFixture(), Clock: time.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = box.Close() }()
	c, err := New(box.SandboxURL(), sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Renew(t.Context(), "a", "px_us_1", 30); err != nil {
		t.Error(err)
	}
	if err := c.Order(t.Context(), "b", "off_us_dallas", 30); err != nil {
		t.Error(err)
	}
	if charges, err := box.Charges(); err != nil || len(charges) != 2 {
		t.Errorf("charged %v, %v", charges, err)
	}
	if err := c.Renew(t.Context(), "c", "px_of_another", 30); err == nil || !strings.Contains(err.Error(), "proxy_not_found") {
		t.Errorf("a proxy that is not there: %v", err)
	}
	wrong, err := New(box.SandboxURL(), sandbox.DemoSandboxAppID, "another secret", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if err := wrong.Order(t.Context(), "d", "off_us_dallas", 30); err == nil || !strings.Contains(err.Error(), "invalid_signature") {
		t.Errorf("another secret: %v", err)
	}
}

func TestTheReferenceChecksWhatReplySays(t *testing.T) {
	for name, reply := range map[string]string{
		"no JSON":     `<html>`,
		"failure":     `{"success":false,"code":"insufficient_wallet_balance","message":"no","data":{}}`,
		"partial":     `{"success":true,"code":"ok","data":{"status":"partial","charged_cents":1,"successful_proxy_ids":[],"failed_proxy_ids":["p"]}}`,
		"other proxy": `{"success":true,"code":"ok","data":{"status":"completed","charged_cents":1,"successful_proxy_ids":["q"]}}`,
		"not charged": `{"success":true,"code":"ok","data":{"status":"completed","charged_cents":0,"successful_proxy_ids":["p"]}}`,
		"no order_no": `{"success":true,"code":"ok","data":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/orders") {
					w.WriteHeader(http.StatusCreated)
				}
				_, _ = io.WriteString(w, reply)
			}))
			defer server.Close()
			c, err := New(server.URL, "a", "s", 1)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.Renew(t.Context(), "k", "p", 30) == nil {
				t.Error("taken for a renewal")
			}
			if c.Order(t.Context(), "k", "o", 30) == nil {
				t.Error("taken for a delivery")
			}
		})
	}
}
