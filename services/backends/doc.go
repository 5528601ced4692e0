// Package backends is the pool of backends of a proxy: it distributes sessions to backends by the scheduling
// of the kernel's virtual servers, with affinity, dials that try other backends, draining, and the copying
// of bytes in both directions.
//
// The userspace data plane and the edge share it. It lies in this module because daemons do not import each
// other, and is named for its contents because neither user is the only proxy.
//
// A session occupies a backend. It is a connection or a flow at layer 4, and a request at layer 7. A
// caller picks a backend for a session, connects to it as it likes, and releases it when the session
// ends. Dialer does this for a connection of layer 4. At layer 7 a connection to a backend outlives
// its requests: Pick and Release are called for each request, Failed after a dial without an answer,
// and Options.Removed closes the connections that wait for the next request.
//
// Two things make a backend unusable for a while. A failed dial or request (Failed, Eject) counts
// until a time. A failed check (SetDown) counts until a check succeeds. Failed backends are used if
// no others are left, because then they are worth another try. Backends that are down are used if
// all of them are down and the server fails open (Server.FailOpen): checks that all fail at once more
// often have a common cause than so many backends do.
package backends
