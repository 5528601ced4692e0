package helloserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandlerNamesItself(t *testing.T) {
	server := httptest.NewServer(handler("pod-1"))
	defer server.Close()
	for _, want := range []string{"hello from pod-1, request 1,", "hello from pod-1, request 2,"} {
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("got %q, %v; want %q…", body, err, want)
		}
	}
}
