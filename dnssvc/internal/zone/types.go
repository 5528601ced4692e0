package zone

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// owner is a kind of names that objects have. A type of records has one or several of them.
type owner uint8

const (
	serviceName owner = 1 << iota // a service, and its endpoints
	portName                      // _PORT._PROTOCOL below a service
	addressName                   // an address in a reverse zone
	aliasName                     // an ExternalName service
)

// RecordType is a type of records that objects have.
type RecordType struct {
	Type   uint16
	owners owner
}

// RecordTypes lists the types of records that objects have. Explanations, the hint for an unknown type, and
// the labels of metrics derive from it.
var RecordTypes = [...]RecordType{
	{dns.TypeA, serviceName},
	{dns.TypeAAAA, serviceName},
	{dns.TypeSRV, serviceName | portName},
	{dns.TypePTR, addressName},
	{dns.TypeCNAME, aliasName},
}

// TypeNames returns the names of all RecordTypes as text, with a conjunction before the last one.
func TypeNames(conjunction string) string { return enumerate(typesOf(^owner(0)), conjunction) }

// typesOf returns the names of the types of records that one of the owners has.
func typesOf(owners owner) []string {
	var names []string
	for _, t := range RecordTypes {
		if t.owners&owners != 0 {
			names = append(names, dns.TypeToString[t.Type])
		}
	}
	return names
}

// isTypeOf reports whether a question for a type, by its name, asks for records that an owner has.
func isTypeOf(owner owner, rrtype string) bool {
	return rrtype == "ANY" || slices.Contains(typesOf(owner), rrtype)
}

// enumerate joins words with commas, and the last one with a conjunction.
func enumerate(words []string, conjunction string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
