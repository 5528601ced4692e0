// Command endpointctl turns selectors into EndpointSlices.
package main

import (
	"os"

	"portolan.dev/endpointctl"
)

func main() { os.Exit(endpointctl.Main()) }
