// Package offers reports the capabilities of lbctl's providers to the registry, which refuses services that no provider
// of their class can serve.
//
// The report is an annotation of a Lease that the leader renews. The registry forgets the report of a leader that no
// longer renews it, so nothing is refused because of a provider that may be another one by now. A provider that does
// not answer is left out of the report, because its capabilities are unknown then.
//
// The report has a Lease of its own. The alternative is lbctl's own Lease, which is renewed several times in a second:
// the report would be repeated in the log of the registry as often, and an lbctl of an earlier release would renew the
// report of its predecessor.
package offers
