package planes

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
)

// maxLookups is the maximum number of lookups of a server that changes meanwhile.
const maxLookups = 10

var errChanging = errors.New("it changed during each lookup")

// lookUp reads one server by its key. It returns nil if there is none. A server that lacks slots is
// looked up again, because it may have changed meanwhile.
func lookUp(f Frontend) (*nftServer, error) {
	var last *nftServer
	for range maxLookups {
		s, err := lookUpOnce(f)
		if err != nil || s == nil {
			return s, err
		}
		classes, err := valuesOf(f, "servers", nftKey(f))
		if err != nil {
			return nil, err
		}
		last = nil
		if len(classes) == 1 && classes[0] == s.class {
			last = s
		}
		if last != nil && s.complete() {
			break
		}
	}
	if last == nil {
		return nil, errChanging
	}
	return last, nil
}

func lookUpOnce(f Frontend) (*nftServer, error) {
	class, err := valuesOf(f, "servers", nftKey(f))
	if err != nil || len(class) == 0 {
		return nil, err
	}
	s := &nftServer{class: class[0]}
	chain, err := valuesOf(f, "classes", s.class)
	if err != nil || len(chain) == 0 {
		return s, err
	}
	if err := s.parseChain(strings.TrimPrefix(chain[0], "goto ")); err != nil || s.size == 0 {
		return s, err
	}
	return s, s.lookUpSlots(f)
}

// lookUpSlots reads the slots with one command, or one by one if some are missing.
func (s *nftServer) lookUpSlots(f Frontend) error {
	var keys []string
	for n := range s.size {
		keys = append(keys, fmt.Sprintf("%s . %x:%x", nftKey(f), slotTag>>16, n))
	}
	all, err := valuesOf(f, "slots", keys...)
	if err != nil {
		return err
	}
	for n := range keys {
		value := all[min(n, len(all)):]
		if len(all) == 0 {
			if value, err = valuesOf(f, "slots", keys[n]); err != nil {
				return err
			}
		}
		if len(value) == 0 {
			continue
		}
		backend, err := parseBackend(value[0])
		if err != nil {
			return err
		}
		s.setSlot(n, backend)
	}
	return nil
}

// nftKey returns a frontend in the syntax of nft.
func nftKey(f Frontend) string {
	return fmt.Sprintf("%s . %s . %d", f.Address.Addr(), strings.ToLower(protocolName(f.Protocol)), f.Address.Port())
}

// valuesOf returns the values of keys of a map, in the order of the keys. It returns none if a key
// is missing.
func valuesOf(f Frontend, name string, keys ...string) ([]string, error) {
	text, err := nft(fmt.Sprintf("get element %s %s %s { %s }", familyOf(f), balancerTable, name, strings.Join(keys, ", ")))
	return elementValues(text), err
}

// nft runs a command of nft. It returns an empty text if the table, map or element does not exist.
// The program gives up with EINTR if the rules change between its first request and its last; the
// command then runs again.
func nft(command string) (string, error) {
	for range maxLookups {
		text, err := nftOnce(command)
		if !errors.Is(err, errChanging) {
			return text, err
		}
	}
	return "", errChanging
}

func nftOnce(command string) (string, error) {
	cmd := exec.Command("nft", command)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if strings.Contains(stderr.String(), "No such file or directory") {
		return "", nil
	}
	if err != nil && strings.Contains(stderr.String(), "Interrupted system call") {
		return "", errChanging
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(text), nil
}

// elementValues returns the values of the elements in the output of nft.
func elementValues(text string) []string {
	_, text, found := strings.Cut(text, "elements = {")
	if !found {
		return nil
	}
	text, _, _ = strings.Cut(text, "}")
	var all []string
	for element := range strings.SplitSeq(text, ",") {
		_, value, _ := strings.Cut(element, " : ")
		all = append(all, strings.TrimSpace(value))
	}
	return all
}

// parseBackend parses a backend in the syntax of nft, such as 10.1.0.1 . 8080.
func parseBackend(text string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(text, " . ")
	addr, err := netip.ParseAddr(address)
	number, err2 := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(addr, uint16(number)), errors.Join(err, err2)
}
