package server

import (
	"encoding/json"
	"net/http"
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/version"

	"portolan.dev/kubeapi/internal/wire"
)

// documents returns the handlers of the paths without a resource. The paths have no slash at their end. The
// handlers are made at the first call, because the command line links this package too, and few of its
// commands serve.
var documents = sync.OnceValue(func() map[string]func(*request) error {
	all := map[string]func(*request) error{
		"/version": sendVersion, "/livez": live, "/healthz": live, "/readyz": ready, "/api": legacyRoot, "/apis": groupsRoot,
	}
	addDiscovery(all)
	addOpenAPI(all)
	return all
})

// The version of Kubernetes that the served types have.
const (
	kubernetesMajor   = "1"
	kubernetesMinor   = "37"
	kubernetesVersion = "v1.37.2"
)

// versionDocument returns the answer to /version.
func versionDocument(own string) []byte {
	text, err := json.Marshal(version.Info{
		Major: kubernetesMajor, Minor: kubernetesMinor, GitVersion: kubernetesVersion + "+portolan", GitCommit: own, GitTreeState: "clean",
		BuildDate: "1970-01-01T00:00:00Z", GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
	if err != nil {
		panic(err) // impossible: the fields are texts
	}
	return text
}

func sendVersion(req *request) error {
	req.sendBytes(http.StatusOK, wire.JSON, req.server.version)
	return nil
}

func live(req *request) error {
	req.sendBytes(http.StatusOK, "text/plain; charset=utf-8", []byte("ok"))
	return nil
}

func ready(req *request) error {
	if err := req.server.cfg.Health.Ready(); err != nil {
		req.sendBytes(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte(err.Error()+"\n"))
		return nil
	}
	return live(req)
}
