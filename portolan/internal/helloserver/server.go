package helloserver

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

// Options are the addresses and the name of the server.
type Options struct {
	Addresses []string // empty: all
	Port      uint16
	Name      string // in every answer
}

// Serve answers until ctx ends, and then completes the requests in progress.
func Serve(ctx context.Context, options Options) error {
	listeners, err := listen(ctx, options)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(options.Name), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { ended <- server.Serve(listener) }()
	}
	select {
	case err := <-ended:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(bounded)
}

// listen listens on all addresses. If one fails, it listens on none.
func listen(ctx context.Context, options Options) ([]net.Listener, error) {
	addresses := options.Addresses
	if len(addresses) == 0 {
		addresses = []string{""}
	}
	var listeners []net.Listener
	for _, address := range addresses {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(int(options.Port))))
		if err != nil {
			for _, other := range listeners {
				_ = other.Close()
			}
			return nil, err
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func handler(name string) http.Handler {
	var requests atomic.Uint64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "hello from %s, request %d, you are %s\n", name, requests.Add(1), r.RemoteAddr) // #nosec G705 -- plain text
	})
	return mux
}
