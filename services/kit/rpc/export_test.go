package rpc

// For tests of parts that have no face of their own.
var (
	NewCodec  = newCodec
	CheckUTF8 = checkUTF8
)

// Serves tells whether a connection to addr would stay in memory.
func Serves(n *MemoryNetwork, addr string) bool { return n.find(addr) != nil }
