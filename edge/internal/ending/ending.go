package ending

// Ending is the way in which a connection of layer 4 or a request of layer 7 has ended.
type Ending uint8

// The endings.
const (
	Complete       Ending = iota // all was passed on
	ClientInvalid                // the client sent a request, or a part of one, that is not valid
	ClientGone                   // the client closed or reset its connection, or cancelled its request
	ClientIdle                   // the edge waited for the client for longer than the idle time
	NoBackend                    // no backend was usable, or none accepted a connection
	BackendGone                  // the backend closed or reset its connection too early
	BackendInvalid               // the backend sent a response, or a certificate, that is not valid
	BackendIdle                  // the edge waited for the backend for longer than the idle time
	Idle                         // no side of a connection sent a byte for the idle time
	Stopped                      // the edge ended it: the port closes, or the time of a backend that was removed is over
	endings
)

var names = [endings]string{
	"complete", "client_invalid", "client_gone", "client_idle", "no_backend", "backend_gone", "backend_invalid", "backend_idle", "idle", "stopped",
}

// String returns the value of the ending in access logs and in labels of metrics.
func (e Ending) String() string { return names[e] }

// BackendFailed reports whether the ending is a failure of the backend.
func (e Ending) BackendFailed() bool {
	return e == BackendGone || e == BackendInvalid || e == BackendIdle
}

// All returns all endings.
func All() []Ending {
	all := make([]Ending, endings)
	for i := range all {
		all[i] = Ending(i) // #nosec G115 -- few
	}
	return all
}
