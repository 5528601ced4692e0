package docker

import (
	"strings"
	"time"
)

// The types in this file have the fields of the engine's answers that the source reads.

// engineVersion is the answer to GET /version.
type engineVersion struct {
	APIVersion    string `json:"ApiVersion"`
	MinAPIVersion string // empty before engine 1.13
}

// listed is a container in the answer to GET /containers/json.
type listed struct {
	ID string `json:"Id"`
}

// container is the answer to GET /containers/{id}/json.
type container struct {
	ID     string `json:"Id"`
	Name   string // with a leading slash
	State  containerState
	Config struct {
		Labels       map[string]string
		Env          []string
		ExposedPorts map[string]struct{} // by port, such as "80/tcp"
		StopSignal   string              // such as "SIGTERM" or "15"; empty: SIGTERM
		StopTimeout  *int                // seconds; nil: the engine's default
	}
	HostConfig struct {
		NetworkMode string
	}
	NetworkSettings struct {
		Ports    map[string][]binding // by port, such as "80/tcp"; nil: exposed and not published
		Networks map[string]endpoint  // by the name of the network
	}
}

type containerState struct {
	Status    string
	StartedAt time.Time
	Health    *struct{ Status string }
}

// binding is a host address and port at which a container's port is published.
type binding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}

// endpoint has the addresses of a container in a network.
type endpoint struct {
	IPAddress         string
	GlobalIPv6Address string
}

// name returns the name that people use.
func (c *container) name() string { return strings.TrimPrefix(c.Name, "/") }

// runs reports whether the container runs or is paused. A container that waits to be restarted by the engine
// has the status "restarting" and no addresses.
func (c *container) runs() bool { return c.State.Status == "running" || c.paused() }

func (c *container) paused() bool { return c.State.Status == "paused" }

// networkOf returns the ID of the other container that shares its network with this one, or "" if there is
// none.
func (c *container) networkOf() string {
	id, _ := strings.CutPrefix(c.HostConfig.NetworkMode, "container:")
	if id == c.HostConfig.NetworkMode {
		return ""
	}
	return id
}

// event is one event of GET /events.
type event struct {
	Type   string // "container" or "network"
	Action string
	Actor  struct {
		ID         string
		Attributes map[string]string
	}
	TimeNano int64 `json:"timeNano"`
}

// container returns the ID of the container that the event is about, or "".
func (e *event) container() string {
	id := e.Actor.ID
	if e.Type == "network" {
		id = e.Actor.Attributes["container"]
	}
	if !isID(id) {
		return ""
	}
	return id
}

// isID reports whether text may be the ID of a container. Such a text needs no escaping in the path of a
// request.
func isID(text string) bool {
	const longest = 64
	return text != "" && len(text) <= longest && strings.Trim(text, "0123456789abcdef") == ""
}
