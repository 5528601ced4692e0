package probe

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/nearest"
	"portolan.dev/services/spec"
)

// Parse returns the probe that a line of text describes, as labels, unit files and flags have it: a
// check, followed by options, all separated by spaces.
//
//	http://:8000/healthz period=5s timeout=2s
//	https://:web/healthz
//	tcp://:5432
//	grpc://:9000/service
//	exec:script argument argument
//	ttl:30s
//
// A port is a number or the name of a container's port. A host before the port is optional; without
// it the check goes to the pod's address. The options are period, timeout, delay (durations of whole
// seconds), failures and successes (numbers). A missing option stays 0, which stands for the default.
// In an exec check, words that begin with the name of an option and "=" are options, the others are
// arguments. A ttl check has no options.
//
// The registry accepts each probe that Parse returns. An error names the wrong part of the text and a
// correct form.
func Parse(text string) (*corev1.Probe, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("check %q is not UTF-8: %s", text, forms)
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, fmt.Errorf("the check is empty: %s", forms)
	}
	found, err := parse(words)
	if err == nil {
		err = validate(found)
	}
	if err != nil {
		return nil, fmt.Errorf("check %q: %w", text, err)
	}
	return found, nil
}

// forms has an example of each form of a check, for errors.
const forms = "write http://:8000/healthz, https://:8443/healthz, tcp://:5432, grpc://:9000/service, exec:SCRIPT or ttl:30s"

// handlers has the parser of each kind of check, by the text before the first colon.
var handlers = map[string]func(rest string, to *corev1.Probe) error{
	"http":  func(rest string, to *corev1.Probe) error { return parseHTTP("http", rest, to) },
	"https": func(rest string, to *corev1.Probe) error { return parseHTTP("https", rest, to) },
	"tcp":   parseTCP, "grpc": parseGRPC, "exec": parseExec, "ttl": parseTTL,
}

func parse(words []string) (*corev1.Probe, error) {
	kind, rest, ok := strings.Cut(words[0], ":")
	read := handlers[strings.ToLower(kind)]
	if !ok || read == nil {
		return nil, fmt.Errorf("%q is no kind of check: %s", kind, forms)
	}
	to := &corev1.Probe{}
	if err := read(rest, to); err != nil {
		return nil, err
	}
	return to, parseOptions(words[1:], to)
}

// validate applies the rules of the registry.
func validate(found *corev1.Probe) error {
	checked := found.CloneVT()
	spec.DefaultProbe(checked)
	var faults []error
	for _, violation := range spec.ValidateProbe(checked) {
		faults = append(faults, fmt.Errorf("%s: %s", violation.Field, violation.Message))
	}
	return errors.Join(faults...)
}

// target is the address of a check that connects to a port.
type target struct {
	host, port, path string // the path has its slash
}

// parseTarget parses //[HOST]:PORT[/PATH].
func parseTarget(kind, rest string) (target, error) {
	after, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return target{}, fmt.Errorf("the kind is followed by no //: write %s://:PORT", kind)
	}
	addr, path := after, ""
	if i := strings.IndexByte(after, '/'); i >= 0 {
		addr, path = after[:i], after[i:]
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return target{}, fmt.Errorf("%q has no port: write %s://:PORT, with the number or the name of a port", addr, kind)
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && spec.DNSSubdomain(host) != "" {
		return target{}, fmt.Errorf("%q is no address and no name of a host: leave it out to check the pod's address", host)
	}
	return target{host, port, path}, nil
}

// parsePort parses a port's number or name. Names are checked by the registry's rules.
func parsePort(text string) (*corev1.IntOrString, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: text}}, nil
	}
	if number < 1 || number > math.MaxUint16 {
		return nil, fmt.Errorf("port %s is not between 1 and 65535", text)
	}
	return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: int32(number)}}, nil
}

func parseTCP(rest string, to *corev1.Probe) error {
	at, err := parseTarget("tcp", rest)
	if err != nil {
		return err
	}
	if at.path != "" {
		return fmt.Errorf("%q follows the port, and a TCP check has no path: leave it out, or write http://", at.path)
	}
	port, err := parsePort(at.port)
	to.Handler = &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: port, Host: at.host}}
	return err
}

func parseHTTP(scheme, rest string, to *corev1.Probe) error {
	at, err := parseTarget(scheme, rest)
	if err != nil {
		return err
	}
	if at.path == "" {
		at.path = "/"
	}
	if strings.Contains(at.path, "#") {
		return fmt.Errorf("path %q has a fragment, which is not sent: leave out everything from # on", at.path)
	}
	if _, err := url.ParseRequestURI(at.path); err != nil {
		return fmt.Errorf("path %q: %w: write odd characters as %%XX", at.path, errors.Unwrap(err))
	}
	port, err := parsePort(at.port)
	to.Handler = &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{Scheme: strings.ToUpper(scheme), Host: at.host, Port: port, Path: at.path}}
	return err
}

func parseGRPC(rest string, to *corev1.Probe) error {
	at, err := parseTarget("grpc", rest)
	if err != nil {
		return err
	}
	if at.host != "" {
		return fmt.Errorf("a gRPC check asks the pod's own address: leave out the host %q", at.host)
	}
	number, err := strconv.ParseUint(at.port, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("port %q: a gRPC check has the number of a port, between 1 and 65535", at.port)
	}
	to.Handler = &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: int32(number)}}
	if service := strings.TrimPrefix(at.path, "/"); service != "" {
		to.GetGrpc().Service = &service
	}
	return nil
}

func parseExec(rest string, to *corev1.Probe) error {
	to.Handler = &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: []string{rest}}}
	if err := CheckScriptName(rest); err != nil {
		return fmt.Errorf("script %q: %w", rest, err)
	}
	return nil
}

func parseTTL(rest string, to *corev1.Probe) error {
	seconds, err := parseSeconds(rest)
	to.Handler = &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: seconds}}
	if err != nil {
		return fmt.Errorf("the time to live %w", err)
	}
	return nil
}

// parseSeconds parses a duration of whole seconds.
func parseSeconds(text string) (int32, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d%time.Second != 0 || d < 0 || d > math.MaxInt32*time.Second {
		return 0, fmt.Errorf("%q is no duration of whole seconds: write 5s or 1m30s", text)
	}
	return int32(d / time.Second), nil
}

// options are the readers of the options by name.
var options = map[string]func(value string, to *corev1.Probe) error{
	"period":    func(value string, to *corev1.Probe) error { return setSeconds(&to.PeriodSeconds, 1, value) },
	"timeout":   func(value string, to *corev1.Probe) error { return setSeconds(&to.TimeoutSeconds, 1, value) },
	"delay":     func(value string, to *corev1.Probe) error { return setSeconds(&to.InitialDelaySeconds, 0, value) },
	"failures":  func(value string, to *corev1.Probe) error { return setCount(&to.FailureThreshold, value) },
	"successes": func(value string, to *corev1.Probe) error { return setCount(&to.SuccessThreshold, value) },
}

var optionNames = []string{"period", "timeout", "failures", "successes", "delay"}

func setSeconds(to *int32, least int32, value string) error {
	seconds, err := parseSeconds(value)
	if err == nil && seconds < least {
		err = fmt.Errorf("%q is too short: write %ds or more", value, least)
	}
	*to = seconds
	return err
}

func setCount(to *int32, value string) error {
	count, err := strconv.ParseInt(value, 10, 32)
	if err != nil || count < 1 {
		return fmt.Errorf("%q is no number from 1 on", value)
	}
	*to = int32(count)
	return nil
}

// parseOptions reads the words after the check.
func parseOptions(words []string, to *corev1.Probe) error {
	var seen []string
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		set := options[name]
		switch exec := to.GetExec(); {
		case exec != nil && (set == nil || name == word):
			exec.Command = append(exec.Command, word)
			continue
		case set == nil:
			return unknownOption(word, name)
		case to.GetTtl() != nil:
			return fmt.Errorf("option %s has no effect on a ttl check, which the node agent does not make: leave it out", name)
		case slices.Contains(seen, name):
			return fmt.Errorf("option %s is there twice: leave one out", name)
		}
		seen = append(seen, name)
		if err := set(value, to); err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
	}
	return nil
}

func unknownOption(word, name string) error {
	hint := ""
	if near := nearest.Name(name, optionNames); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Errorf("%q is no option: options are %s, written NAME=VALUE%s", word, strings.Join(optionNames, ", "), hint)
}
