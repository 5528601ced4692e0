package workload

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ResolverConfig holds the resolver settings by which programs find services.
type ResolverConfig struct {
	Servers []string // addresses of name servers on port 53; empty: the host's resolver
	Search  []string // domains that complete short names
}

// hostResolvConf is the file with the search path of this machine. Systems without it have none.
const hostResolvConf = "/etc/resolv.conf"

// Limits of the C library's resolver.
const (
	maxServers = 3
	maxSearch  = 6
)

// ResolverConfigFor returns the settings for programs of a namespace. The search path ends with the
// domains in more, which come from the host.
func ResolverConfigFor(servers []string, namespace, zone string, more []string) ResolverConfig {
	zone = strings.Trim(zone, ".")
	search := []string{namespace + ".svc." + zone, "svc." + zone, zone}
	for _, domain := range more {
		if !slices.Contains(search, domain) {
			search = append(search, domain)
		}
	}
	return ResolverConfig{Servers: servers[:min(len(servers), maxServers)], Search: search[:min(len(search), maxSearch)]}
}

// ResolvConf returns the text of a resolv.conf.
func (n ResolverConfig) ResolvConf() string {
	var b strings.Builder
	for _, server := range n.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	fmt.Fprintf(&b, "search %s\noptions ndots:5\n", strings.Join(n.Search, " "))
	return b.String()
}

// environment returns the variables that make the C library complete short names with the search
// path. It leaves out variables that the caller has set.
func (n ResolverConfig) environment() []string {
	var variables []string
	for name, value := range map[string]string{"LOCALDOMAIN": strings.Join(n.Search, " "), "RES_OPTIONS": "ndots:5"} {
		if _, set := os.LookupEnv(name); !set {
			variables = append(variables, name+"="+value)
		}
	}
	return variables
}

// searchOf returns the search path of a resolv.conf, or nil if it cannot be read.
func searchOf(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var search []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && (words[0] == "search" || words[0] == "domain") {
			search = words[1:] // the last line counts
		}
	}
	return slices.DeleteFunc(search, func(domain string) bool { return domain == "." })
}

// privateResolver returns a command that runs the program with a resolv.conf of its own, and a
// function that removes that file. Without privileges or without name servers, or on a system
// without mount namespaces, it returns the program itself, and the search path for its environment.
func (r *Runner) privateResolver(names ResolverConfig, program []string) (command, environment []string, remove func(), err error) {
	if !mountNamespaces || len(names.Servers) == 0 || r.Self == "" || os.Geteuid() != 0 {
		return program, names.environment(), func() {}, nil
	}
	file, err := os.CreateTemp("", "portolan-resolv-*.conf")
	if err != nil {
		return nil, nil, nil, err
	}
	remove = func() { _ = os.Remove(file.Name()) }
	_, err = file.WriteString(names.ResolvConf())
	for _, step := range []func() error{func() error { return file.Chmod(0o644) }, file.Close} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		remove()
		return nil, nil, nil, err
	}
	return slices.Concat([]string{r.Self, "with-resolver", file.Name(), "--"}, program), nil, remove, nil
}
