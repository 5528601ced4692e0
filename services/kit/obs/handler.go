package obs

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"portolan.dev/services/kit/health"
)

// Handler serves /metrics, /healthz and /readyz.
//
// /healthz says that the process answers. It ignores the checks, because restarting a daemon does
// not help if, for example, its database is away. /readyz returns 503 with the failing checks, one
// per line, until all checks succeed. Then it returns 200 with the warnings and notes, one per line.
func Handler(metrics prometheus.Gatherer, checks *health.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := checks.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		for _, warning := range checks.Warnings() {
			fmt.Fprintln(w, "warning:", warning)
		}
		for _, note := range checks.Notes() {
			fmt.Fprintln(w, note)
		}
	})
	return mux
}

// DebugHandler serves /debug/pprof, which has profiles, stacks and the command line of the process,
// and /debug/loglevel. It is not for clients on other machines.
func DebugHandler(level *slog.LevelVar) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/loglevel", levelHandler(level))
	return mux
}
