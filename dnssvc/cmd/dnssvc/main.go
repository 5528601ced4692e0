// Command dnssvc answers by DNS for the names of services.
package main

import (
	"os"

	"portolan.dev/dnssvc"
)

func main() { os.Exit(dnssvc.Main()) }
