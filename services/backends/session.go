package backends

// Session is a connection, a flow or a request that occupies a backend. The pool calls its methods
// with its lock held, so they must not call the pool.
type Session interface {
	// Abort ends the session at once. It may be called several times.
	Abort()
	// BackendRemoved is called when the session's backend was removed. It ends the parts of the session
	// that can continue at another backend. The other parts may continue until the end of draining.
	BackendRemoved()
}
