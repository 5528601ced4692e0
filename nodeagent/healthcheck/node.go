package healthcheck

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Node is the health of the node, for load balancers that send traffic to any node and for
// supervisors that restart agents.
type Node struct {
	// Healthy reports whether changes reach the data plane.
	Healthy bool
	// Eligible reports whether the node is neither being deleted nor draining.
	Eligible bool
	// Updated is the time at which the data plane last matched the plan.
	Updated time.Time
}

// nodeAnswer has the same fields as kube-proxy's answer.
type nodeAnswer struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
}

// NodeHandler serves /proxyMode, the name of the mode as text, and /healthz and /livez with the
// meaning that they have on a Kubernetes node. Both return 503 if changes have not reached the data
// plane for too long. /healthz also returns 503 if the node is being deleted or draining, so that
// load balancers avoid the node while its agent is not restarted. NodeHandler calls asked with the
// path and status of each answer.
func NodeHandler(mode string, state func() Node, asked func(path string, code int)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		asked("/proxyMode", http.StatusOK)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		io.WriteString(w, mode) //nolint:errcheck // the client is gone: nobody to tell
	})
	for path, live := range map[string]bool{"/healthz": false, "/livez": true} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			node := state()
			a := nodeAnswer{LastUpdated: node.Updated, CurrentTime: time.Now()}
			if node.Healthy { // no change is pending, so the state in force is current
				a.LastUpdated = a.CurrentTime
			}
			code := http.StatusOK
			if !node.Healthy || !live && !node.Eligible {
				code = http.StatusServiceUnavailable
			}
			if !live {
				a.NodeEligible = &node.Eligible
			}
			asked(path, code)
			answerNode(w, code, a)
		})
	}
	return mux
}

func answerNode(w http.ResponseWriter, code int, a nodeAnswer) {
	body, err := json.Marshal(a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body) //nolint:errcheck // the client is gone: nobody to tell
}
