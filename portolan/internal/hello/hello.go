package hello

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Options say where to listen and who to be.
type Options struct {
	Address string // empty: all
	Port    uint16
	Name    string // what every answer names
}

// Serve answers until ctx ends; requests on their way are finished.
func Serve(ctx context.Context, options Options) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(options.Address, strconv.Itoa(int(options.Port))))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(options.Name), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(bounded)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func handler(name string) http.Handler {
	var requests atomic.Uint64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "hello from %s, request %d, you are %s\n", name, requests.Add(1), r.RemoteAddr)
	})
	return mux
}
