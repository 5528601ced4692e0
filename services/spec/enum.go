package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
)

// Enum is an enum of the contract. Manifests write its values as words.
type Enum interface {
	corev1.AddressType | corev1.ConditionStatus | corev1.EventType | corev1.IPFamily | corev1.IPFamilyPolicy | corev1.IPMode |
		corev1.ManagedFieldsOperation | corev1.NamespacePhase | corev1.PodPhase | corev1.Protocol | corev1.Scheduler | corev1.ServiceType | corev1.SessionAffinity |
		corev1.TrafficDistribution | corev1.TrafficPolicy
	comparable
	~int32
	protoreflect.Enum
}

// EnumName returns the word for a value in manifests: "NodePort", "ClientIP", "TCP". It returns the
// empty string for the unspecified value, and the number for a value without a word.
func EnumName[E Enum](value E) string {
	if value == 0 {
		return ""
	}
	if word, ok := wordsOf(value)[int32(value)]; ok {
		return word
	}
	return strconv.Itoa(int(value))
}

// ParseEnum returns the value for a word in manifests. Words are case-sensitive, as in Kubernetes.
func ParseEnum[E Enum](word string) (E, bool) {
	var zero E
	for number, known := range wordsOf(zero) {
		if known == word {
			return E(number), true
		}
	}
	return 0, false
}

// EnumNames returns the words of an enum, in the order of their numbers.
func EnumNames[E Enum]() []string {
	var zero E
	words := wordsOf(zero)
	names := make([]string, 0, len(words))
	for _, number := range slices.Sorted(maps.Keys(words)) {
		names = append(names, words[number])
	}
	return names
}

// wordOverrides maps the names of values to the words that readWords cannot derive.
var wordOverrides = map[string]string{
	"CLUSTER_IP": "ClusterIP", "CLIENT_IP": "ClientIP", "IPV4": "IPv4", "IPV6": "IPv6", "FQDN": "FQDN", "VIP": "VIP",
	"TCP": "TCP", "UDP": "UDP", "SCTP": "SCTP",
	"RR": "rr", "LC": "lc", "DH": "dh", "SH": "sh", "SED": "sed", "NQ": "nq", "MH": "mh",
}

var words = allWords()

func allWords() map[protoreflect.FullName]map[int32]string {
	all := map[protoreflect.FullName]map[int32]string{}
	for _, enum := range []protoreflect.Enum{
		corev1.AddressType(0), corev1.ConditionStatus(0), corev1.EventType(0), corev1.IPFamily(0), corev1.IPFamilyPolicy(0),
		corev1.IPMode(0), corev1.ManagedFieldsOperation(0), corev1.NamespacePhase(0), corev1.PodPhase(0), corev1.Protocol(0), corev1.Scheduler(0), corev1.ServiceType(0),
		corev1.SessionAffinity(0), corev1.TrafficDistribution(0), corev1.TrafficPolicy(0),
	} {
		all[enum.Descriptor().FullName()] = readWords(enum.Descriptor())
	}
	return all
}

func wordsOf(enum protoreflect.Enum) map[int32]string { return words[enum.Descriptor().FullName()] }

// readWords derives the words from the names in the contract: SERVICE_TYPE_NODE_PORT without the
// prefix that it shares with SERVICE_TYPE_UNSPECIFIED becomes NodePort. A value that is added to
// the contract therefore has a word without further code.
func readWords(enum protoreflect.EnumDescriptor) map[int32]string {
	values := enum.Values()
	prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
	named := make(map[int32]string, values.Len()-1)
	for i := range values.Len() {
		if value := values.Get(i); value.Number() != 0 {
			named[int32(value.Number())] = camel(strings.TrimPrefix(string(value.Name()), prefix))
		}
	}
	return named
}

func camel(name string) string {
	if word, ok := wordOverrides[name]; ok {
		return word
	}
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		b.WriteString(part[:1] + strings.ToLower(part[1:]))
	}
	return b.String()
}
