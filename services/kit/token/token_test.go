package token_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/token"
)

// TestOnlyTheTokenIsAccepted checks headers against a token that was read from its file.
func TestOnlyTheTokenIsAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	server, err := token.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := token.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := client.GetRequestMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	right := sent[token.Header]
	if err := server.Check([]string{right}); err != nil {
		t.Errorf("the token of the file: %v", err)
	}
	for _, values := range [][]string{
		nil, {""}, {"Bearer "}, {right[:len(right)-1]}, {right + "A"}, {right, right}, {strings.TrimPrefix(right, "Bearer ")}, {strings.ToLower(right)},
	} {
		if err := server.Check(values); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), path) {
			t.Errorf("header %q: %v", values, err)
		}
	}
	if text := fmt.Sprint(server, client) + server.Check(nil).Error(); strings.Contains(text, strings.TrimPrefix(right, "Bearer ")) {
		t.Errorf("the secret is in %q", text)
	}
	next, err := token.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Check([]string{right}); err == nil {
		t.Error("the token of an earlier process is accepted")
	}
	if err := next.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := token.Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// TestBasicAuthentication checks requests over HTTP that have the token as a password.
func TestBasicAuthentication(t *testing.T) {
	server, err := token.Create(filepath.Join(t.TempDir(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	sent, err := server.GetRequestMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	right := sent[token.Header]
	password, _ := server.Userinfo().Password()
	basic := func(password string) string {
		request := http.Request{Header: http.Header{}}
		request.SetBasicAuth(server.Userinfo().Username(), password)
		return request.Header.Get(token.Header)
	}
	for _, c := range []struct {
		values []string
		want   codes.Code
	}{
		{[]string{right}, codes.OK}, {[]string{basic(password)}, codes.OK}, {nil, codes.Unauthenticated}, {[]string{basic("")}, codes.Unauthenticated},
		{[]string{basic(password + "A")}, codes.Unauthenticated}, {[]string{basic(right)}, codes.Unauthenticated},
		{[]string{basic(password), basic(password)}, codes.Unauthenticated}, {[]string{"Basic " + password}, codes.Unauthenticated},
	} {
		header := http.Header{}
		for _, value := range c.values {
			header.Add(token.Header, value)
		}
		if err := server.CheckRequest(&http.Request{Header: header}); status.Code(err) != c.want {
			t.Errorf("header %q: %v, want %v", c.values, err, c.want)
		}
	}
}

// TestFilesOfOthersAreRefused reads files that other users can read, and files without a token.
func TestFilesOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if _, err := token.Create(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := token.Read(path); err == nil || !strings.Contains(err.Error(), "can be read by other users") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := token.Read(dir); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("a folder: %v", err)
	}
	for content, want := range map[string]string{"": "has no token", "two words": "has no token", "line\r\nbreak": "has no token"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := token.Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("content %q: %v", content, err)
		}
	}
}
