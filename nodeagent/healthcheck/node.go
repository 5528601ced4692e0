package healthcheck

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Node is how a node is, for load balancers that send to any node, and for who
// restarts agents.
type Node struct {
	// Healthy: changes reach the data plane.
	Healthy bool
	// Eligible: the node is neither being deleted nor draining.
	Eligible bool
	// Updated is when the data plane was last brought to the plan.
	Updated time.Time
}

// nodeAnswer is what kube-proxy answers, field by field.
type nodeAnswer struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
}

// NodeHandler serves /proxyMode, the name of the mode as text, and /healthz and
// /livez with the meaning that they have on a
// Kubernetes node: both are 503 when changes have not reached the data plane for
// too long, /healthz also when the node is about to go, so that load balancers
// leave it while nobody restarts its agent. asked is told of each answer.
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
			if node.Healthy { // nothing waits: what is in force is the present
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
