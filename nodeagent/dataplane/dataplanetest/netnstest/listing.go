package netnstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/kerneltest/topology"
)

var _ dataplanetest.Inspector = (*Rig)(nil)

// Inspect implements dataplanetest.Inspector. The distribution's nft must be able to list the rules
// of the node, because operators, backups and firewalls do.
func (r *Rig) Inspect() error {
	if r.nft == nil {
		return nil
	}
	if r.options.Emulated {
		_, err := r.nft.run(r.Node, "", "list", "ruleset")
		return err
	}
	return r.nft.Inspect(r.Node)
}

// Nft is the distribution's program nft.
type Nft struct {
	path  string
	empty *topology.Namespace // where rulesets are restored
}

// FindNft finds the program, or returns nil. The test fails if programs are required.
func FindNft(t testing.TB) *Nft {
	t.Helper()
	for _, name := range []string{"nft", "/usr/sbin/nft"} {
		if path, err := exec.LookPath(name); err == nil {
			return &Nft{path: path, empty: topology.New(t, "restored")}
		}
	}
	if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
		t.Fatal("nft is missing: run make test-tools")
	}
	t.Log("nft is missing, so the rules are not listed: run make test-tools")
	return nil
}

// Inspect checks that nft lists the ruleset of a namespace, as text and as JSON, and that the text
// makes the same rules in an empty namespace, as when a backup is restored.
func (n *Nft) Inspect(node *topology.Namespace) error {
	text, err := n.List(node)
	if err != nil {
		return err
	}
	text = restorable(text)
	if err := n.Restore(n.empty, text); err != nil {
		return err
	}
	again, err := n.List(n.empty)
	if err != nil {
		return fmt.Errorf("what was restored: %w", err)
	}
	if before, after := rulesOf(text), rulesOf(again); before != after {
		return fmt.Errorf("nft restores these rules:\n%s\nfrom these:\n%s", after, before)
	}
	return nil
}

// List returns the ruleset of a namespace as text. It also lists it as JSON.
func (n *Nft) List(ns *topology.Namespace) (text string, err error) {
	if text, err = n.run(ns, "", "list", "ruleset"); err != nil {
		return "", err
	}
	if text == "" {
		return "", errors.New("nft lists nothing")
	}
	document, err := n.run(ns, "", "-j", "list", "ruleset")
	if err == nil && !json.Valid([]byte(document)) {
		err = fmt.Errorf("nft lists as JSON: %s", document)
	}
	return text, err
}

// Restore replaces the ruleset of a namespace by a listed one.
func (n *Nft) Restore(ns *topology.Namespace, text string) error {
	_, err := n.run(ns, "flush ruleset\n"+text, "-f", "-")
	return err
}

func (n *Nft) run(ns *topology.Namespace, input string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	err := ns.Do(func() error {
		cmd := exec.Command(n.path, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
		return cmd.Run()
	})
	if err != nil {
		return "", fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// lifetime is the time of an element, and the rest of it.
var lifetime = regexp.MustCompile(`timeout (\w+) expires (\w+)`)

// restorable returns a listed ruleset without the parts that nft 1.0.6 lists but cannot
// restore: it aborts if a packet updates an element of a map with a key of more than 16 bytes, such
// as the affinity of an IPv6 client, and the kernel refuses the rest of a time that was made longer.
func restorable(text string) string {
	var out strings.Builder
	v6 := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "table ") {
			v6 = strings.HasPrefix(line, "table ip6 ")
		}
		statement := strings.TrimSpace(line)
		if v6 && (strings.Contains(statement, "update @affinity") || strings.HasPrefix(statement, "delete @affinity")) {
			continue
		}
		out.WriteString(lifetime.ReplaceAllStringFunc(line, withPossibleRest))
	}
	return out.String()
}

// withPossibleRest returns a lifetime without its rest, if that is longer than the whole.
func withPossibleRest(text string) string {
	parts := lifetime.FindStringSubmatch(text)
	whole, err := time.ParseDuration(parts[1])
	rest, err2 := time.ParseDuration(parts[2])
	if err == nil && err2 == nil && rest > whole {
		return "timeout " + parts[1]
	}
	return text
}

// rulesOf returns the lines of a listed ruleset that are not about elements of sets. Packets and the
// time change these.
func rulesOf(text string) string {
	var out strings.Builder
	elements := false
	for line := range strings.Lines(text) {
		elements = elements || strings.HasPrefix(strings.TrimSpace(line), "elements = {")
		if !elements {
			out.WriteString(line)
		}
		if strings.HasSuffix(line, "}\n") {
			elements = false
		}
	}
	return out.String()
}
