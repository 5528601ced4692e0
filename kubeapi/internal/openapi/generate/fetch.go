package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// sum is the checksum of the module k8s.io/kubernetes, as in a go.sum, at the version of k8s.io/api that
// kubeapi/go.mod requires. When that version changes, the error of fetch has the new checksum.
const sum = "h1:A2VDEiObzkYqFTKhSsn0ZEb0RlLEXpHWj93gi2HqEwE="

// source is the published documents of a version of Kubernetes.
type source struct {
	version string // v1.37.2
	folder  string // has swagger.json and v3/*.json
}

// fetch downloads the source of Kubernetes into the module cache. A go.mod cannot require the module,
// because the module's own go.mod requires modules that exist only in Kubernetes' repository.
func fetch(ctx context.Context) (source, error) {
	version, err := kubernetesVersion()
	if err != nil {
		return source{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	cmd.Dir = os.TempDir() // no module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	output, failed := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(output, &module); err != nil {
		return source{}, errors.Join(failed, err)
	}
	switch {
	case module.Error != "":
		return source{}, errors.New(module.Error)
	case module.Sum != sum:
		return source{}, fmt.Errorf("k8s.io/kubernetes@%s has the checksum %s, not %s", version, module.Sum, sum)
	}
	return source{version, filepath.Join(module.Dir, "api", "openapi-spec")}, nil
}

// kubernetesVersion returns the version of Kubernetes that this program has the types of. Version v0.37.2
// of k8s.io/api belongs to Kubernetes v1.37.2.
func kubernetesVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("the program was built without modules")
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			return "v1" + strings.TrimPrefix(module.Version, "v0"), nil
		}
	}
	return "", errors.New("the program has no types of k8s.io/api")
}
