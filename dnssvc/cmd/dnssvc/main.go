// Command dnssvc answers by DNS for the names of services.
package main

import (
	"os"

	"portolan.dev/dnssvc"
	"portolan.dev/services/daemon"
)

func main() { os.Exit(daemon.Main("dnssvc", dnssvc.New)) }
