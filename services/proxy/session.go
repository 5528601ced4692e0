package proxy

// Session is a connection, a flow or a request that occupies a backend. The pool calls its methods
// with its lock held, so they must not call the pool.
type Session interface {
	// Abort ends the session at once. It may be called several times.
	Abort()
	// BackendRemoved ends the parts of the session that can continue at another backend, because this
	// one was removed. The rest may continue until it is drained.
	BackendRemoved()
}
