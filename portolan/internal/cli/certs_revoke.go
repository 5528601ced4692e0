package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// revokeOptions are the flags of certs revoke.
type revokeOptions struct {
	output, serial, reason string
}

// revokeResult is the result of certs revoke, as in its JSON output.
type revokeResult struct {
	Identity string    `json:"identity,omitempty"`
	Serial   string    `json:"serial,omitempty"`
	Time     time.Time `json:"time"`
	// Revocation is the name of the object in the registry; empty: it was not stored.
	Revocation string   `json:"revocation,omitempty"`
	Recorded   bool     `json:"recorded"` // in the folder of certificates
	Notes      []string `json:"notes"`
	Error      string   `json:"error,omitempty"` // why it was not stored
}

func newCertsRevoke(flags *connection) *cobra.Command {
	options := &revokeOptions{}
	command := &cobra.Command{
		Use:   "revoke ROLE[/NAME] | FILE.crt | --serial HEX",
		Short: "Make all daemons refuse certificates that have not expired",
		Long: `revoke writes a Revocation to the registry. All daemons refuse the certificates within seconds, and end their open streams and connections.

With an identity, such as nodeagent/n1, it revokes all certificates that were issued to the identity until now. Use this if a key was stolen,
because the thief may have renewed the certificate. A certificate that is issued at least two seconds later is accepted. Tokens that stand for the
identity, or were made by it, are refused too. With a file or --serial it revokes one certificate.

In the folder of the authority revoke also records the identity, so that "portolan certs nats-config" leaves it out. NATS accepts the identity
until its servers have the new configuration.`,
		Example: `  portolan certs revoke nodeagent/n1 --reason "the machine was stolen"
  portolan certs revoke old/operator.crt
  portolan certs revoke --serial 3a:f1:09 --server 10.0.0.1:7400
  portolan certs issue nodeagent/n1 --force     # a new certificate, which is accepted`,
		Args: arguments(cobra.MaximumNArgs(1), "one ROLE[/NAME] or FILE.crt, or --serial HEX"),
		RunE: func(command *cobra.Command, args []string) error {
			target, err := options.target(args)
			if err != nil {
				return err
			}
			return options.revoke(command, flags, target)
		},
	}
	set := command.Flags()
	registerOutput(command, &options.output, "table", "json")
	set.StringVar(&options.serial, "serial", "", "serial number of one certificate, in hexadecimal digits")
	set.StringVar(&options.reason, "reason", "", "reason, for people who read the Revocation or are refused")
	return command
}

// revokeTarget names the certificates to revoke.
type revokeTarget struct {
	spec *corev1.RevocationSpec
	// identity is the path of the identity, also if one certificate of it is revoked; empty:
	// unknown.
	identity string
}

// target parses the arguments.
func (o *revokeOptions) target(args []string) (revokeTarget, error) {
	wanted := &corev1.RevocationSpec{Reason: o.reason}
	target := revokeTarget{spec: wanted}
	switch {
	case (len(args) == 0) == (o.serial == ""):
		return target, usageError{errors.New("want one ROLE[/NAME] or FILE.crt, or --serial HEX")}
	case o.serial != "":
		wanted.Serial = spec.CanonicalSerial(o.serial)
	case strings.HasSuffix(args[0], ".crt"):
		cert, err := certs.ReadCertificate(args[0])
		if err != nil {
			return target, err
		}
		wanted.Serial, wanted.Expires = identity.SerialOf(cert), timestamppb.New(cert.NotAfter)
		if id, err := identity.FromCertificate(cert); err == nil {
			target.identity = id.Path()
		}
	default:
		wanted.Identity, target.identity = args[0], args[0]
	}
	if problems := spec.ValidateRevocation(&corev1.Revocation{Spec: wanted}, spec.Rules{}); len(problems) > 0 {
		return target, usageError{fmt.Errorf("%s: %s", strings.TrimPrefix(problems[0].Field, "spec."), problems[0].Message)}
	}
	return target, nil
}

// revoke stores the Revocation, records it in the folder, and prints the steps that it has taken and the
// steps that the operator has to take. It ends with an error if a step failed.
func (o *revokeOptions) revoke(command *cobra.Command, flags *connection, target revokeTarget) error {
	result := revokeResult{Identity: target.identity, Serial: target.spec.GetSerial(), Time: time.Now()}
	stored, err := storeRevocation(command.Context(), flags, target.spec)
	if err == nil {
		result.Revocation, result.Time = stored.GetMetadata().GetName(), timeOf(stored)
	} else {
		result.Error = apierr.Describe(err)
		result.note("The daemons still accept it: run this command again when the registry answers.")
	}
	recordErr := result.record(folderOf(flags), target, o.reason)
	if err := o.print(command.OutOrStdout(), result); err != nil {
		return err
	}
	switch {
	case recordErr != nil:
		return fmt.Errorf("record it in %s: %w", folderOf(flags), recordErr)
	case err != nil:
		return fmt.Errorf("not stored in the registry: %s", result.Error)
	}
	return nil
}

// storeRevocation writes a Revocation. In the folder of an authority it uses the operator's
// certificate there, also if --certs is not given.
func storeRevocation(ctx context.Context, flags *connection, wanted *corev1.RevocationSpec) (*corev1.Revocation, error) {
	with := *flags
	if with.certs == "" && with.files.Cert == "" && certs.HasAuthority(folderOf(flags)) {
		with.certs = folderOf(flags)
	}
	conn, err := with.dial(with.server, identity.Registry)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	answer, err := registryv1.NewRevocationServiceClient(conn).CreateRevocation(ctx, &registryv1.CreateRevocationRequest{Revocation: &corev1.Revocation{
		Metadata: &corev1.ObjectMeta{GenerateName: spec.IdentityPrefix(cmp.Or(wanted.GetIdentity(), "serial-"+wanted.GetSerial()))}, Spec: wanted,
	}})
	return answer.GetRevocation(), err
}

// timeOf returns the time of a Revocation.
func timeOf(r *corev1.Revocation) time.Time {
	if at := r.GetSpec().GetIssuedBefore(); at != nil {
		return at.AsTime()
	}
	return r.GetMetadata().GetCreationTimestamp().AsTime()
}

func (r *revokeResult) note(text string) { r.Notes = append(r.Notes, text) }

// record records the revocation in the folder of the authority, if that is here, and adds notes
// about the next steps.
func (r *revokeResult) record(dir string, target revokeTarget, reason string) error {
	switch {
	case target.identity == "":
		r.note("A serial number does not tell the identity: NATS lets the certificate in until it expires. Revoke the identity to keep it out.")
		return nil
	case !certs.HasAuthority(dir):
		r.note("There is no authority in " + dir + ": run this command with --certs where it is, so that portolan certs nats-config leaves " + target.identity + " out.")
		return nil
	}
	folder, err := certs.Open(dir)
	if err != nil {
		return err
	}
	if err := folder.RecordRevoked(certs.Revoked{Identity: target.identity, Serial: r.Serial, Time: r.Time, Reason: reason}); err != nil {
		return err
	}
	r.Recorded = true
	id, err := identity.ParsePath(folder.TrustDomain(), target.identity)
	if err != nil {
		return err
	}
	switch id.Role {
	case identity.NATSRoute:
		r.note("No daemon looks at this certificate, and NATS servers do not know of revocations: give the routes a new authority. Delete routes-ca.crt and routes-ca.key, issue natsroute anew, and copy both to all servers.")
	case identity.Registry:
		r.note("Postgres lets the revoked certificate in until it expires, or until Postgres trusts another authority.")
	}
	if certs.UsesNATS(id) {
		r.note("NATS lets it in until its servers have the output of portolan certs nats-config and got nats-server --signal reload.")
		r.note("NATS knows identities only: once " + target.identity + " has a new certificate, NATS lets the revoked one in too, until it expires.")
	}
	r.note("A new certificate, which is accepted: portolan certs issue " + target.identity + " --force")
	return nil
}

// print prints the result as text or JSON.
func (o *revokeOptions) print(out io.Writer, result revokeResult) error {
	if o.output == "json" {
		return writeJSON(out, result)
	}
	what := "all certificates of " + result.Identity + " that were issued until " + result.Time.UTC().Format(time.RFC3339)
	if result.Serial != "" {
		what = "the certificate with the serial number " + result.Serial
	}
	if result.Revocation != "" {
		_, _ = fmt.Fprintf(out, "Revoked: %s (revocation/%s).\n", what, result.Revocation)
	} else {
		_, _ = fmt.Fprintf(out, "NOT revoked: %s.\n", what)
	}
	if result.Recorded {
		_, _ = fmt.Fprintln(out, "Recorded in the folder of certificates.")
	}
	for _, note := range result.Notes {
		_, _ = fmt.Fprintln(out, note)
	}
	return nil
}

func newCertsList(flags *connection) *cobra.Command {
	output := ""
	command := &cobra.Command{
		Use:   "list",
		Short: "List the certificates of the folder",
		Long: `list shows the certificates of the folder, and which of them "portolan certs revoke" has revoked. "portolan get revocations" shows all Revocations of
the registry, which also revokes the certificates of deleted nodes.`,
		Example: "  portolan certs list\n  portolan certs list --certs /root/certs -o json",
		Args:    arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			folder, err := certs.Open(folderOf(flags))
			if err != nil {
				return err
			}
			list, err := folder.ListWithState()
			if err != nil {
				return err
			}
			return printListed(command.OutOrStdout(), list, output)
		},
	}
	registerOutput(command, &output, "table", "json")
	return command
}

func printListed(out io.Writer, list []certs.Listed, output string) error {
	if output == "json" {
		return writeJSON(out, list)
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tEXPIRES\tSTATE\tSERIAL\tFILE")
	for _, one := range list {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", one.Name, one.Expires.UTC().Format(time.RFC3339), stateOf(one), one.Serial, one.Cert)
	}
	return w.Flush()
}

func stateOf(one certs.Listed) string {
	switch {
	case one.Revoked:
		return "revoked"
	case time.Now().After(one.Expires):
		return "expired"
	}
	return "valid"
}
