package printer

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"portolan.dev/portolan/internal/lbrules"
)

// LBRules prints firewall rules of load balancers, one per line.
func LBRules(w io.Writer, rules []lbrules.Rule, withNamespace bool) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	if withNamespace {
		_, _ = fmt.Fprint(out, "NAMESPACE\t")
	}
	_, _ = fmt.Fprintln(out, "SERVICE\tRULE\tPROTOCOL\tDESTINATION\tPORTS\tSOURCE\tDESCRIPTION")
	for _, r := range rules {
		if withNamespace {
			printf(out, "%s\t", r.Namespace)
		}
		printf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Service, string(r.Kind), r.Protocol, r.Destination, rulePorts(r), joinValues(r.Sources), r.Description)
	}
	return out.Flush()
}

// rulePorts returns the ports of a rule, or its type of messages.
func rulePorts(r lbrules.Rule) string {
	if r.ICMP != nil {
		return fmt.Sprintf("type %d code %d", r.ICMP.Type, r.ICMP.Code)
	}
	return joinValues(r.Ports)
}

// joinValues returns values with commas between them.
func joinValues[T any](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, ",")
}
