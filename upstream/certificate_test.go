package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWhatIsWrongWithACertificateIsSaidInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	cert := &x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), DNSNames: []string{"a.example.com", "b.\x1bexample.com"}}
	for says, x := range map[string]struct {
		err error
		now time.Time
	}{
		"expired at 2026-11-01T01:00:00Z":               {x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}, now.Add(2 * time.Hour)},
		"is not valid before 2026-10-31T23:00:00Z":      {x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}, now.Add(-2 * time.Hour)},
		"is for other names: a.example.com, b. example": {x509.HostnameError{Certificate: cert, Host: "api.example.com"}, now},
		"is refused: x509: ":                            {x509.CertificateInvalidError{Cert: cert, Reason: x509.IncompatibleUsage}, now},
		"account.ca_file":                               {x509.UnknownAuthorityError{Cert: cert}, now},
	} {
		if text, do := ProviderCertificate(&tls.CertificateVerificationError{Err: x.err}, x.now); !strings.Contains(text+": "+do, says) || do == "" {
			t.Errorf("%q, %q does not say %q", text, do, says)
		}
	}
	if text, _ := ProviderCertificate(errors.New("reset"), now); text != "" {
		t.Error(text)
	}
}
