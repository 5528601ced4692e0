package spec_test

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func TestParseSelector(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"  ", ""},
		{"app=web", "app=web"},
		{"app==web", "app=web"},
		{" app = web , tier != db ", "app=web,tier!=db"},
		{"app=", "app="},
		{"app!=", "app!="},
		{"app=,tier=db", "app=,tier=db"},
		{"app", "app"},
		{"!app", "!app"},
		{"! app", "!app"},
		{"x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z!="},
		{"x in (a)", "x=a"},
		{"x in (b, a, b)", "x in (a,b)"},
		{"in in (in,notin)", "in in (in,notin)"},
		{"notin", "notin"},
		{"app.kubernetes.io/name=MyApp", "app.kubernetes.io/name=MyApp"},
		{"tier in (a,b),!old", "tier in (a,b),!old"},
	} {
		selector, err := spec.ParseSelector(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
		} else if got := selector.String(); got != test.want {
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
	for _, text := range []string{
		"=web", "app=web,", ",app=web", "app=web,,tier", "app web", "app in", "app in a", "app in (a", "app in (a b)", "app in (a))", "!", "!app=web",
		"!app in (a)", "!!app", "app>1", "app<1", "app=web=db", "a b=c", "-app=web", "app=-web", "app in (-a)", "/app", "app=(", "(app)", "app===web", "äpp",
	} {
		if selector, err := spec.ParseSelector(text); err == nil {
			t.Errorf("%q was read as %q", text, selector)
		}
	}
}

func TestSelectorMatches(t *testing.T) {
	labels := map[string]string{"app": "web", "tier": "", "zone": "a"}
	for _, test := range []struct {
		text string
		want bool
	}{
		{"", true},
		{"app=web", true},
		{"app=db", false},
		{"app!=db", true},
		{"app!=web", false},
		{"missing!=x", true},
		{"missing=", false},
		{"tier=", true},
		{"tier", true},
		{"missing", false},
		{"!missing", true},
		{"!app", false},
		{"zone in (a,b)", true},
		{"zone notin (a,b)", false},
		{"missing notin (a,b)", true},
		{"missing in (a,b)", false},
		{"app=web,zone=b", false},
	} {
		selector, err := spec.ParseSelector(test.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := selector.Matches(labels); got != test.want {
			t.Errorf("%q: got %v", test.text, got)
		}
	}
}

func TestMatchEquality(t *testing.T) {
	labels := map[string]string{"app": "web", "zone": "a", "empty": ""}
	for _, test := range []struct {
		selector map[string]string
		want     bool
	}{
		{nil, false},
		{map[string]string{"app": "web"}, true},
		{map[string]string{"app": "web", "zone": "a"}, true},
		{map[string]string{"app": "web", "zone": "b"}, false},
		{map[string]string{"missing": ""}, false},
		{map[string]string{"empty": ""}, true},
	} {
		if got := spec.MatchEquality(test.selector, labels); got != test.want {
			t.Errorf("%v: got %v", test.selector, got)
		}
	}
}

func TestFieldSelector(t *testing.T) {
	svc := web(ofType(nodePort), onIP("10.96.0.1"))
	svc.Metadata.Namespace = "prod"
	p := pod()
	p.Status = &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "10.0.0.1"}
	event := &corev1.Event{
		Metadata:  &corev1.ObjectMeta{Name: "e"},
		Regarding: &corev1.ObjectReference{Kind: "Service", Namespace: "prod", Name: "web", Uid: "u"}, Reason: "a,b=c\\",
		Type: corev1.EventType_EVENT_TYPE_WARNING, ReportingComponent: "nodeagent",
	}
	for _, test := range []struct {
		o    object.Object
		text string
		want bool
	}{
		{svc, "", true},
		{svc, "metadata.name=web", true},
		{svc, "metadata.name==web, metadata.namespace = prod", true},
		{svc, "metadata.name!=web", false},
		{svc, "spec.type=NodePort", true},
		{svc, "spec.type=NodePort,spec.clusterIP=None", false},
		{p, "spec.nodeName=n1,status.phase=Running,status.podIP=10.0.0.1", true},
		{&corev1.Node{}, "spec.unschedulable=false", true},
		{example("Lease"), "spec.holderIdentity=a", true},
		{&corev1.Namespace{}, "status.phase=", true},
		{event, "involvedObject.kind=Service,involvedObject.name=web,involvedObject.namespace=prod,involvedObject.uid=u", true},
		{event, "regarding.kind=Service,regarding.name=web,regarding.namespace=prod,regarding.uid=u", true},
		{event, `type=Warning,reportingComponent=nodeagent,reason=a\,b\=c\\`, true},
	} {
		selector, err := kinds.Of(test.o).ParseFieldSelector(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
		} else if got := selector.Matches(test.o); got != test.want || selector.Empty() != (test.text == "") {
			t.Errorf("%q: got %v, empty %v", test.text, got, selector.Empty())
		}
	}
	for _, text := range []string{"metadata.name", "spec.nothing=1", "spec.nodeName=n1", "=x"} {
		if _, err := kinds.Of(&corev1.Service{}).ParseFieldSelector(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	if _, err := kinds.Of(&corev1.Node{}).ParseFieldSelector("metadata.namespace=x"); err == nil {
		t.Error("nodes were selected by namespace")
	}
}

func TestEnumWords(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{spec.EnumName(corev1.Protocol_PROTOCOL_SCTP), "SCTP"},
		{spec.EnumName(corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP), "ClusterIP"},
		{spec.EnumName(corev1.ServiceType_SERVICE_TYPE_NODE_PORT), "NodePort"},
		{spec.EnumName(corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME), "ExternalName"},
		{spec.EnumName(corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP), "ClientIP"},
		{spec.EnumName(corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK), "PreferDualStack"},
		{spec.EnumName(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE), "PreferSameNode"},
		{spec.EnumName(corev1.AddressType_ADDRESS_TYPE_IPV6), "IPv6"},
		{spec.EnumName(corev1.Scheduler_SCHEDULER_SED), "sed"},
		{spec.EnumName(corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN), "Unknown"},
		{spec.EnumName(corev1.Protocol(0)), ""},
		{spec.EnumName(corev1.Protocol(77)), "77"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
	both(t, spec.EnumNames[corev1.AddressType](), spec.ParseEnum[corev1.AddressType], spec.EnumName[corev1.AddressType])
	both(t, spec.EnumNames[corev1.IPMode](), spec.ParseEnum[corev1.IPMode], spec.EnumName[corev1.IPMode])
	both(t, spec.EnumNames[corev1.PodPhase](), spec.ParseEnum[corev1.PodPhase], spec.EnumName[corev1.PodPhase])
	both(t, spec.EnumNames[corev1.Scheduler](), spec.ParseEnum[corev1.Scheduler], spec.EnumName[corev1.Scheduler])
	for _, word := range []string{"", "tcp", "77", "PROTOCOL_TCP"} {
		if value, ok := spec.ParseEnum[corev1.Protocol](word); ok {
			t.Errorf("%q was read as %v", word, value)
		}
	}
}

func both[E spec.Enum](t *testing.T, words []string, parse func(string) (E, bool), name func(E) string) {
	t.Helper()
	if len(words) == 0 {
		t.Error("no words")
	}
	for _, word := range words {
		if value, ok := parse(word); !ok || name(value) != word {
			t.Errorf("%q is %v, written %q", word, value, name(value))
		}
	}
}

func TestFamilyOf(t *testing.T) {
	for address, want := range map[string]corev1.IPFamily{
		"10.0.0.1": v4, "fd00::1": v6, "": 0, "None": 0, "10.0.0.01": 0, "::ffff:10.0.0.1": 0, "fe80::1%eth0": 0,
	} {
		if got := spec.FamilyOf(address); got != want {
			t.Errorf("%q: got %v", address, got)
		}
	}
}
