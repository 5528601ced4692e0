package token

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/atomicfile"
)

// Header is the header, of gRPC and HTTP, in which clients send a token: "Bearer", a space and the
// token.
const Header = "authorization"

const scheme = "Bearer "

// Token is the secret of an installation. A server checks requests with it, and a client passes it
// to gRPC.
type Token struct {
	secret string // of 130 bits
	path   string // file that has the secret
}

var _ credentials.PerRPCCredentials = (*Token)(nil)

// Create makes a new token and writes it to a file that only this user can read. It replaces the
// token of an earlier process.
func Create(path string) (*Token, error) {
	t := &Token{secret: rand.Text(), path: path}
	if err := atomicfile.WriteFile(path, []byte(t.secret+"\n"), 0o600); err != nil {
		return nil, err
	}
	return t, nil
}

// maxFile is the size up to which a file is read, in bytes.
const maxFile = 1 << 10

// Read reads the token in a file. It returns an error if other users can read or replace the token.
// If there is no file, the error is fs.ErrNotExist.
func Read(path string) (*Token, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := checkFile(file); err != nil {
		return nil, fmt.Errorf("token file %s %w", path, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("token file %s has no token: start portolan dev again, which writes a new one", path)
	}
	return &Token{secret: secret, path: path}, nil
}

// Remove removes the token's file.
func (t *Token) Remove() error { return os.Remove(t.path) }

// Check returns an UNAUTHENTICATED error unless the values of a request's header are exactly the
// token. The comparison takes the same time for every wrong token.
func (t *Token) Check(values []string) error {
	if len(values) == 1 && subtle.ConstantTimeCompare([]byte(values[0]), []byte(scheme+t.secret)) == 1 {
		return nil
	}
	fault := "has no token"
	if len(values) > 0 {
		fault = "has another token"
	}
	return apierr.Unauthenticated(fmt.Sprintf("the request %s, and this installation serves its own user only: the token is in %s; "+
		"portolan finds it in the folder where portolan dev was started, or by --token-file or PORTOLAN_TOKEN_FILE; "+
		"other clients send it in the header %q", fault, t.path, Header+": "+scheme+"TOKEN"))
}

// CheckRequest checks a request over HTTP as Check does. It also accepts the token as the password of
// basic authentication, because clients on Kubernetes' client-go send no bearer token without TLS, but
// they send the user and password in the URL of their server.
func (t *Token) CheckRequest(r *http.Request) error {
	values := r.Header.Values(Header)
	if _, password, ok := r.BasicAuth(); ok && len(values) == 1 {
		values = []string{scheme + password}
	}
	return t.Check(values)
}

// Userinfo returns the part of a URL with which clients send the token by basic authentication. The
// name of the user has no meaning.
func (t *Token) Userinfo() *url.Userinfo { return url.UserPassword("portolan", t.secret) }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *Token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{Header: scheme + t.secret}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. An installation in one process
// has no TLS.
func (t *Token) RequireTransportSecurity() bool { return false }

// String returns the file, so that a log never has the secret.
func (t *Token) String() string { return "token in " + t.path }
