package explain

import (
	"context"
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	dnsv1 "portolan.dev/api/dns/v1"
)

// names asks the name server for its answer about the service.
func (c *chain) names(ctx context.Context) Step {
	step := Step{Title: "names", State: OK}
	meta := c.service.GetMetadata()
	question := &dnsv1.QueryRequest{Name: fmt.Sprintf("%s.%s.svc.%s.", meta.GetName(), meta.GetNamespace(), c.zone), Type: c.recordType()}
	answer, err := dnsv1.NewDNSServiceClient(c.DNS).Query(ctx, question)
	if err != nil {
		return silent(step, "dnssvc", err)
	}
	step.say("%s %s: %s", question.GetName(), question.GetType(), answer.GetRcode())
	for i, record := range answer.GetAnswer() {
		if i == shown {
			step.say("and %d more records", len(answer.GetAnswer())-shown)
			break
		}
		step.say("%s", record)
	}
	for _, line := range answer.GetExplanation() {
		step.say("%s", line)
	}
	if len(answer.GetAnswer()) == 0 {
		step.mark(Broken, "the name has no answer; the reason is above")
	}
	return step
}

// recordType returns the record type that a client of the service asks for first.
func (c *chain) recordType() string {
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
