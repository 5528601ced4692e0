package pool

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// The services of a share have the same addresses, so a requested address has to suit all of them. It is compared with
// the requests of the others, and not with their present addresses. Otherwise a share could never move to another address, because each
// service would wait for the others, and the address of services that are made together would depend on their order.
// One service after the other moves:
//
//   - a service that requests an address gets it if no other member of the share requests another one, and keeps it
//     if another one does so later;
//   - a service that requests none follows the others, also one that joins later.

// follow changes the wishes of a service to the addresses that it shares with the other members. It returns an error if
// the service requests an address that the others cannot have.
func follow(svc *corev1.Service, wishes []wish, members []*corev1.Service) error {
	if len(members) == 0 {
		return nil
	}
	isMember := hasAddressOf(svc, members)
	for i := range wishes {
		w := &wishes[i]
		switch {
		case w.value == "":
			followAddresses(w, members)
			continue
		case w.value == w.has && isMember:
			continue
		}
		for _, member := range members {
			if err := checkRequest(svc, w, member); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasAddressOf reports whether a service has an address of the members of a share, and so is a member itself. Before it
// has joined, its status has no address, or other ones.
func hasAddressOf(svc *corev1.Service, members []*corev1.Service) bool {
	for family, own := range addressesOf(svc) {
		for _, member := range members {
			if slices.ContainsFunc(addressesOf(member)[family], func(ip string) bool { return slices.Contains(own, ip) }) {
				return true
			}
		}
	}
	return false
}

// checkRequest returns an error if a member of the share cannot have the address that a service requests.
func checkRequest(svc *corev1.Service, w *wish, member *corev1.Service) error {
	requested, err := requestedOf(member)
	if err != nil || w.number >= len(requested[w.family]) || requested[w.family][w.number] == w.value {
		return nil
	}
	name, other := member.GetMetadata().GetName(), requested[w.family][w.number]
	return status.Errorf(codes.FailedPrecondition, "the service requests %s, but %s, which has the same sharing key %q, requests %s: request that one, or %s at %s too, or use another key",
		w.value, name, spec.SharingKey(svc), other, w.value, name)
}

// followAddresses changes a wish without a request to the address that the members have. While they move, some have one
// address and others another. Then the wish is for the address that the share has claimed last, because they move to
// it.
func followAddresses(w *wish, members []*corev1.Service) {
	var all []string
	for _, member := range members {
		if have := addressesOf(member)[w.family]; w.number < len(have) {
			all = append(all, have[w.number])
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch {
	case len(all) == 1 && (w.has == "" || w.has == all[0]):
		w.has = all[0]
	case len(all) > 0:
		w.newest = true
		w.has = all[0]
	}
}
