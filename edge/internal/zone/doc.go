// Package zone chooses between the endpoints of the edge's own zone and those of other zones, for
// services that are not balanced across zones.
//
// A zone is only preferred: a service that has no usable endpoint in the zone is served from the other
// zones, because traffic between zones costs less than an outage.
package zone
