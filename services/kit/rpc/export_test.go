package rpc

// Internal functions for tests.
var (
	NewCodec  = newCodec
	CheckUTF8 = checkUTF8
)

// Serves reports whether a connection to addr would use a pipe.
func Serves(n *MemoryNetwork, addr string) bool { return n.find(addr) != nil }
