// Explanations of TLS certificate errors for operators.

package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"
)

// namesShown limits the certificate names in an explanation, in bytes.
const namesShown = 200

// providerTrust tells the operator how to trust a private authority of the provider.
const providerTrust = "name the file of its authority in account.ca_file, if it is meant to be a private one"

// ProviderCertificate explains an error of the provider's certificate. See
// [CertificateFault].
func ProviderCertificate(err error, now time.Time) (says, do string) {
	return CertificateFault(err, "the provider's", providerTrust, now)
}

// CertificateFault explains why a server's certificate was rejected and what to do. It
// returns "" if err is not a certificate error. whose names the owner, as in "the
// provider's". trust is the advice for an unknown authority.
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
		return whose + " certificate is for other names: " + nameOf(strings.Join(names, ", "), namesShown), "look at the address, and at what is between here and there"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return whose + " certificate is signed by an authority that this machine does not know", trust
	}
	return whose + " certificate is refused: " + nameOf(refused.Err.Error(), namesShown), "have it replaced where it is served"
}
