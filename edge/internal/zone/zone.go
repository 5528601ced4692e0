package zone

// Endpoint is what the choice depends on.
type Endpoint struct {
	// Zone is the zone of the endpoint, or empty if it is not known.
	Zone string
	// Usable reports whether the endpoint can be used: it is ready, its checks succeed, and it is not
	// ejected.
	Usable bool
}

// Weights returns the weight of each endpoint: 1, or 0 if the endpoint gets no new connections because
// it is in another zone than the edge. Weights are 0 only if cross is false and an endpoint in the
// edge's zone can be used. An endpoint that cannot be used has a weight too, because its state changes
// more often than its zone, and the pool knows it.
//
// An endpoint with the weight 0 stays in the pool, so that its connections last when endpoints in the
// edge's zone come back.
func Weights(endpoints []Endpoint, own string, cross bool) []uint32 {
	prefer := !cross && own != "" && anyUsable(endpoints, own)
	weights := make([]uint32, len(endpoints))
	for i, e := range endpoints {
		if !prefer || e.Zone == own {
			weights[i] = 1
		}
	}
	return weights
}

// anyUsable reports whether an endpoint of a zone can be used.
func anyUsable(endpoints []Endpoint, zone string) bool {
	for _, e := range endpoints {
		if e.Zone == zone && e.Usable {
			return true
		}
	}
	return false
}
