package registrar

import "portolan.dev/services/daemon"

// Main runs the daemon in a process of its own.
func Main() int { return daemon.Main("registrar", New) }
