package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/spec"
)

func newToken(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for clients of Kubernetes' API",
		Long: `A token lets a client call kubeapi without a certificate, as an operator, a viewer or a workload, until it expires or is deleted. The registry stores a
hash of it. Only operators of all namespaces make, see and delete tokens.`,
		Example: `  portolan token create ci --role viewer --namespace shop
  portolan get tokens
  portolan delete token ci                       # revokes it`,
	}
	command.AddCommand(newTokenCreate(flags))
	return command
}

// tokenFlags are the flags of commands that make a token.
type tokenFlags struct {
	role, namespace string
	ttl             lifetime // 0: the registry's default
}

func (f *tokenFlags) register(command *cobra.Command) {
	set := command.Flags()
	set.StringVar(&f.role, "role", "", "operator, viewer or workload/NODE")
	set.StringVarP(&f.namespace, "namespace", "n", "", "namespace that the token is good for (default: all)")
	set.Var(&f.ttl, "ttl", "time that the token is good for, at most 366d, such as 12h or 90d (default: 30d)")
}

// identity returns the path of the identity that the token is to stand for.
func (f *tokenFlags) identity() (string, error) {
	if f.role == "" {
		return "", usageError{errors.New("want --role: operator, viewer or workload/NODE")}
	}
	path := f.role
	if f.namespace != "" {
		path += "/" + f.namespace
	}
	probe := &corev1.Token{Spec: &corev1.TokenSpec{Identity: path, Sha256: make([]byte, len(bearer.Sum("")))}}
	if problems := spec.ValidateToken(probe, spec.Rules{}); len(problems) > 0 {
		return "", usageError{fmt.Errorf("--role %s: %s", f.role, problems[0].Message)}
	}
	return path, nil
}

// madeToken is a token, with the text that its client sends.
type madeToken struct {
	*corev1.Token
	text string
}

// make makes a token. Its secret is made here, and the registry gets the hash only.
func (f *tokenFlags) make(ctx context.Context, registry grpc.ClientConnInterface, meta *corev1.ObjectMeta) (madeToken, error) {
	path, err := f.identity()
	if err != nil {
		return madeToken{}, err
	}
	secret := bearer.NewSecret()
	sum := bearer.Sum(secret)
	token := &corev1.Token{Metadata: meta, Spec: &corev1.TokenSpec{Identity: path, Sha256: sum[:]}}
	if f.ttl != 0 {
		token.Spec.Expires = timestamppb.New(time.Now().Add(time.Duration(f.ttl)))
	}
	answer, err := registryv1.NewTokenServiceClient(registry).CreateToken(ctx, &registryv1.CreateTokenRequest{Token: token})
	if err != nil {
		return madeToken{}, err
	}
	return madeToken{answer.GetToken(), bearer.Text(answer.GetToken().GetMetadata().GetName(), secret)}, nil
}

// about describes a token for people: its name, its identity and its end.
func (m madeToken) about() string {
	return fmt.Sprintf("token %s: %s until %s; portolan delete token %[1]s revokes it",
		m.GetMetadata().GetName(), m.GetSpec().GetIdentity(), m.GetSpec().GetExpires().AsTime().Format(time.RFC3339))
}

func newTokenCreate(flags *connection) *cobra.Command {
	f := &tokenFlags{}
	command := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Make a token and print it",
		Long: `create makes a token and prints it. It is printed once and cannot be read afterwards. Clients send it as "Authorization: Bearer TOKEN", or have it in a
kubeconfig, which "portolan kubeconfig" writes.`,
		Example: `  portolan token create traefik --role viewer > traefik.token
  portolan token create ci --role operator --namespace shop --ttl 12h
  portolan token create agent --role workload/n1 --namespace shop`,
		Args:              arguments(cobra.ExactArgs(1), "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			made, err := f.make(command.Context(), registry.Conn(), &corev1.ObjectMeta{Name: args[0]})
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(command.ErrOrStderr(), made.about())
			_, err = fmt.Fprintln(command.OutOrStdout(), made.text)
			return err
		}),
	}
	f.register(command)
	return command
}
