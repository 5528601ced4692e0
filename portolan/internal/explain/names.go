package explain

import (
	"context"
	"fmt"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	dnsv1 "portolan.dev/api/dns/v1"
)

// names asks the name server for its answer about the service.
func (c *explainer) names(ctx context.Context) Step {
	step := Step{Title: "names", State: OK}
	meta := c.service.GetMetadata()
	question := &dnsv1.QueryRequest{Name: fmt.Sprintf("%s.%s.svc.%s.", meta.GetName(), meta.GetNamespace(), c.zone), Type: c.recordType()}
	answer, err := dnsv1.NewDNSServiceClient(c.DNS).Query(ctx, question)
	if err != nil {
		return noAnswer(step, "dnssvc", err)
	}
	step.addLine("%s %s: %s", question.GetName(), question.GetType(), answer.GetRcode())
	for i, record := range answer.GetAnswer() {
		if i == maxShown {
			step.addLine("and %d more records", len(answer.GetAnswer())-maxShown)
			break
		}
		step.addLine("%s", strings.ReplaceAll(record, "\t", " ")) // a tab would be shown as \t
	}
	for _, line := range answer.GetExplanation() {
		step.addLine("%s", line)
	}
	if len(answer.GetAnswer()) == 0 {
		step.setState(Broken, "the name has no answer; the reason is above")
	}
	return step
}

// recordType returns the record type that a client of the service asks for first.
func (c *explainer) recordType() string {
	families := c.service.GetSpec().GetIpFamilies()
	switch {
	case c.service.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME:
		return "CNAME"
	case len(families) > 0 && families[0] == corev1.IPFamily_IP_FAMILY_IPV6:
		return "AAAA"
	default:
		return "A"
	}
}
