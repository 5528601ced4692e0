package accesslog

import (
	"crypto/tls"
	"strings"
)

// cipherNames has the names of cipher suites in the spelling of OpenSSL, which the classic load
// balancers use.
var cipherNames = func() map[uint16]string {
	names := map[uint16]string{}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		names[suite.ID] = openSSLName(suite.Name)
	}
	return names
}()

// openSSLName converts a name of the IANA. Names of TLS 1.3 are the same in both spellings.
func openSSLName(name string) string {
	rest := strings.TrimPrefix(name, "TLS_")
	keys, cipher, old := strings.Cut(rest, "_WITH_")
	if !old {
		return name
	}
	cipher = strings.NewReplacer("AES_128", "AES128", "AES_256", "AES256", "3DES_EDE_CBC", "DES_CBC3", "RC4_128", "RC4", "_CBC", "", "POLY1305_SHA256", "POLY1305").Replace(cipher)
	if keys != "RSA" {
		cipher = keys + "_" + cipher
	}
	return strings.ReplaceAll(cipher, "_", "-")
}

// cipherName returns the name of a cipher suite, or a dash.
func cipherName(suite uint16) string {
	if name, ok := cipherNames[suite]; ok {
		return name
	}
	return "-"
}

// protocolName returns the name of a version of TLS, or a dash.
func protocolName(version uint16) string {
	switch version {
	case tls.VersionTLS13:
		return "TLSv1.3"
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS11:
		return "TLSv1.1"
	case tls.VersionTLS10:
		return "TLSv1"
	}
	return "-"
}
