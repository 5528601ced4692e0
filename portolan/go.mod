module portolan.dev/portolan

go 1.26.0

require portolan.dev/proto v0.0.0

require portolan.dev/services v0.0.0

require portolan.dev/registry v0.0.0

require portolan.dev/allocator v0.0.0

require portolan.dev/endpointctl v0.0.0

require portolan.dev/dnssvc v0.0.0

require portolan.dev/nodeagent v0.0.0

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nats-server/v2 v2.15.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	k8s.io/api v0.37.2 // indirect
	k8s.io/apimachinery v0.37.2 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)

replace portolan.dev/proto => ../proto

replace portolan.dev/services => ../services

replace portolan.dev/registry => ../registry

replace portolan.dev/allocator => ../allocator

replace portolan.dev/endpointctl => ../endpointctl

replace portolan.dev/dnssvc => ../dnssvc

replace portolan.dev/nodeagent => ../nodeagent
