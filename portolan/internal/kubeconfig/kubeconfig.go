package kubeconfig

import (
	"encoding/base64"

	"go.yaml.in/yaml/v2"
)

// name is the name of the cluster and of the context in the file.
const name = "portolan"

// Config describes a file with one cluster and one user.
type Config struct {
	Server    string // URL of kubeapi
	CA        []byte // certificates of the trusted authorities, PEM
	User      string // path of the identity, for people
	Namespace string // of commands that name none; empty: default
	// Token is the text of the user's token. If it is empty, ClientCert and ClientKey are the files of the
	// user's certificate and its key.
	Token                 string
	ClientCert, ClientKey string
}

type file struct {
	APIVersion     string    `yaml:"apiVersion"`
	Kind           string    `yaml:"kind"`
	CurrentContext string    `yaml:"current-context"`
	Clusters       []cluster `yaml:"clusters"`
	Contexts       []context `yaml:"contexts"`
	Users          []user    `yaml:"users"`
}

type cluster struct {
	Name    string `yaml:"name"`
	Cluster struct {
		Server string `yaml:"server"`
		// CA is in base64.
		CA string `yaml:"certificate-authority-data"`
	} `yaml:"cluster"`
}

type context struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster   string `yaml:"cluster"`
		User      string `yaml:"user"`
		Namespace string `yaml:"namespace,omitempty"`
	} `yaml:"context"`
}

type user struct {
	Name string `yaml:"name"`
	User struct {
		Token      string `yaml:"token,omitempty"`
		ClientCert string `yaml:"client-certificate,omitempty"`
		ClientKey  string `yaml:"client-key,omitempty"`
	} `yaml:"user"`
}

// Encode returns the file.
func (c *Config) Encode() ([]byte, error) {
	f := file{APIVersion: "v1", Kind: "Config", CurrentContext: name, Clusters: make([]cluster, 1), Contexts: make([]context, 1), Users: make([]user, 1)}
	f.Clusters[0].Name, f.Contexts[0].Name, f.Users[0].Name = name, name, c.User
	f.Clusters[0].Cluster.Server, f.Clusters[0].Cluster.CA = c.Server, base64.StdEncoding.EncodeToString(c.CA)
	f.Contexts[0].Context.Cluster, f.Contexts[0].Context.User, f.Contexts[0].Context.Namespace = name, c.User, c.Namespace
	f.Users[0].User.Token, f.Users[0].User.ClientCert, f.Users[0].User.ClientKey = c.Token, c.ClientCert, c.ClientKey
	return yaml.Marshal(f)
}
