package labels

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/spec"
)

// MaxPorts is the largest number of ports of a workload.
const MaxPorts = 100

var errPort = errors.New("want a port, NUMBER or NUMBER/PROTOCOL, such as 8000 or 53/udp")

// Protocol returns the protocol with a name such as "udp". The empty name is TCP.
func Protocol(name string) (corev1.Protocol, error) {
	protocol, known := spec.ParseEnum[corev1.Protocol](strings.ToUpper(cmp.Or(name, "tcp")))
	if !known {
		return 0, fmt.Errorf("protocol %q is not known; protocols are tcp, udp and sctp", shorten(name))
	}
	return protocol, nil
}

// Ports parses NUMBER[-NUMBER][/PROTOCOL], which is how Docker writes exposed ports. A single port gets the
// given name. The ports of a range, and a port without a name, get names such as tcp-8000.
func Ports(name, text string) ([]source.Port, error) {
	if violation := spec.PortName(name); name != "" && violation != "" {
		return nil, fmt.Errorf("the name %q %s", shorten(name), violation)
	}
	numbers, protocolName, _ := strings.Cut(text, "/")
	protocol, err := Protocol(protocolName)
	if err != nil {
		return nil, err
	}
	firstText, lastText, isRange := strings.Cut(numbers, "-")
	if !isRange {
		lastText = firstText
	}
	first, firstErr := number(firstText)
	last, lastErr := number(lastText)
	switch {
	case firstErr != nil || lastErr != nil:
		return nil, errPort
	case last < first || last-first >= MaxPorts:
		return nil, fmt.Errorf("the range %q: want at most %d ports, the smaller first", shorten(numbers), MaxPorts)
	}
	var ports []source.Port
	for n := int(first); n <= int(last); n++ {
		port := source.Port{Name: name, Number: uint16(n), Protocol: protocol} // #nosec G115 -- number has checked both ends
		if isRange || name == "" {
			port.Name = NameOf(port)
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// NameOf returns the name of a port to which the user gave no name, such as tcp-8000.
func NameOf(port source.Port) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(spec.EnumName(port.Protocol)), port.Number)
}

func number(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && n == 0 {
		err = errPort
	}
	return uint16(n), err
}
