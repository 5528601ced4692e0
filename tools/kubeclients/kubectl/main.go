// Command kubectl is kubectl in the version of the types that kubeapi links. Distributions have older ones.
// The tests of kubeapi build it (portolan/e2e/kubeapi).
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it and exits
	}
}
