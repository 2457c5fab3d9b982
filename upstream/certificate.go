// Explanations of TLS certificate errors for operators.

package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"
)

// maxNames limits the certificate names in an explanation, in bytes.
const maxNames = 200

// providerTrust is the advice for a provider certificate from an unknown certificate authority.
const providerTrust = "if its authority is meant to be private, name that authority's file in account.ca_file"

// ProviderCertificate explains an error about the provider's certificate, as [CertificateFault]
// does.
func ProviderCertificate(err error, now time.Time) (says, do string) {
	return CertificateFault(err, "the provider's", providerTrust, now)
}

// CertificateFault explains why the client rejected a server's certificate and what the
// operator can do. It returns "" if err is not a certificate error. whose begins the
// explanation, for example "the provider's". trust is the advice for an unknown certificate
// authority.
func CertificateFault(err error, whose, trust string, now time.Time) (says, do string) {
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return "", ""
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](refused.Err); ok && invalid.Reason == x509.Expired {
		if now.Before(invalid.Cert.NotBefore) {
			return whose + " certificate is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339), "look at this machine's clock"
		}
		return whose + " certificate expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339), "have it renewed where it is served, or look at this machine's clock"
	}
	if other, ok := errors.AsType[x509.HostnameError](refused.Err); ok {
		names := other.Certificate.DNSNames
		for _, ip := range other.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return whose + " certificate is for other names: " + sanitizeName(strings.Join(names, ", "), maxNames), "look at the address, and at what is between here and there"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return whose + " certificate is signed by an authority that this machine does not know", trust
	}
	return whose + " certificate is refused: " + sanitizeName(refused.Err.Error(), maxNames), "have it replaced where it is served"
}
