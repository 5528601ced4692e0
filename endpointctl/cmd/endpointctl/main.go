// Command endpointctl turns selectors into EndpointSlices.
package main

import (
	"os"

	"portolan.dev/endpointctl"
	"portolan.dev/services/daemon"
)

func main() { os.Exit(daemon.Main("endpointctl", endpointctl.New)) }
