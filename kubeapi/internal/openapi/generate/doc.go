// Command generate writes the OpenAPI documents that kubeapi serves, compressed, into the folder -out.
//
// Kubernetes publishes the documents in its source (api/openapi-spec of k8s.io/kubernetes). The command
// fetches this source as a Go module of 22 MB with a pinned checksum, at the version of kubeapi's own
// types. It removes the paths, verbs, parameters, encodings and definitions that kubeapi does not serve
// according to package resource.
//
// Two other ways were weighed. openapi-gen makes the definitions from k8s.io/api's Go files, but not the
// paths, which would have to be written here, and its output has to be compiled. The methods SwaggerDoc of
// the Go types do not tell which lists are maps, and server-side apply needs this.
//
// With -check nothing is written. Instead the documents that differ are listed, and the exit code is 1.
// The decompressed contents are compared, because another version of Go may compress the same content to
// other bytes.
package main
