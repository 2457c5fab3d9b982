// What is wrong with the provider's certificate, in words.

package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"
)

// namesShown bounds what is shown of the names of a certificate, in bytes.
const namesShown = 200

// certificateFault says what is wrong with the certificate that the provider has shown, ""
// where err is about something else.
func certificateFault(err error, now time.Time) string {
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return ""
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](refused.Err); ok && invalid.Reason == x509.Expired {
		if now.Before(invalid.Cert.NotBefore) {
			return "the provider's certificate is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339) + ": look at this machine's clock"
		}
		return "the provider's certificate expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339)
	}
	if other, ok := errors.AsType[x509.HostnameError](refused.Err); ok {
		names := other.Certificate.DNSNames
		for _, ip := range other.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return "the provider's certificate is for other names: " + nameOf(strings.Join(names, ", "), namesShown)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return "the provider's certificate is signed by an authority that this machine does not know: name its file in account.ca_file"
	}
	return ""
}
