// Command kubeapi serves the API of Kubernetes over the registry.
package main

import (
	"os"

	"portolan.dev/kubeapi"
)

func main() { os.Exit(kubeapi.Main()) }
